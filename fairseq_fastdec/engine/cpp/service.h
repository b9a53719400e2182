// Decodes sentences that arrive one by one in the searches of several threads: refilling (Yang et
// al. 2020) without an end.

#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "search.h"

namespace fastdec {

// Finished sentences on the way to the thread that reads them.
class Mailbox {
 public:
  // Raises std::system_error if the process has no file descriptors left.
  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox &) = delete;
  Mailbox &operator=(const Mailbox &) = delete;

  // Thread-safe.
  void put(Result sentence);
  // The sentences since the last call. To be called after a byte was read from fd().
  std::vector<Result> take();
  // Has a byte to read if there are sentences, so that an event loop can watch it.
  int fd() const { return ends[0]; }

 private:
  std::mutex mutex;
  std::vector<Result> sentences;
  int ends[2];  // of a pipe
};

// A waiting sentence, whose id increases in the order of arrival.
struct Arrival {
  Request request;
  std::shared_ptr<const MakeSearch> make;  // sentences with the same one share searches
  std::shared_ptr<Mailbox> mailbox;        // where the result goes
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

struct ServiceOptions {
  int64_t workers = 1;   // the number of decoding threads
  int64_t capacity = 1;  // the maximum number of sentences that each of them decodes at once
  int64_t threads = 1;   // the number of threads of a step if no other worker is decoding
  // How long sentences may wait, in seconds, while more than half of a worker's capacity is in use,
  // so that more of them begin together.
  double max_wait = 0;
  // The waiting sentence with the fewest tokens begins next, instead of the oldest one.
  bool takes_shortest = false;
  // A sentence that has waited longer than this, in seconds, begins before all others.
  double longest_wait = 2;
};

// Methods are thread-safe.
class Service {
 public:
  explicit Service(const ServiceOptions &options);
  ~Service() { close(); }
  Service(const Service &) = delete;
  Service &operator=(const Service &) = delete;

  // Returns whether the sentence is accepted: not if most_waiting sentences are waiting, or after
  // close().
  bool submit(Arrival arrival, int64_t most_waiting);
  // Removes a sentence; returns whether it was found.
  bool cancel(int64_t id);
  // The numbers of sentences that wait and that are being decoded.
  std::pair<int64_t, int64_t> queued();
  // Decodes all submitted sentences, and stops the threads.
  void close();

 private:
  struct OwnSearch {
    std::shared_ptr<const MakeSearch> make;
    std::unique_ptr<Search> search;
    std::unordered_set<int64_t> ids;
  };
  struct Worker {
    int64_t n_sentences = 0;
    std::vector<int64_t> cancelled;
    // Only used by the worker's thread; the most recently used one is last.
    std::vector<OwnSearch> searches;
    std::thread thread;
  };
  struct Place {
    Worker *worker;
    std::shared_ptr<Mailbox> mailbox;
  };
  using Key = std::pair<int64_t, int64_t>;  // the tokens if the shortest begins next, and the id

  void work(Worker &own);
  void deliver(Worker &own, std::vector<Result> &done);
  // Called with the lock.
  void take(Worker &own, std::vector<Arrival> &joining);
  Key next() const;
  double seconds_waiting() const;
  // Called without the lock.
  void join(Worker &own, Arrival &arrival, std::vector<Result> &done);
  void drop(Worker &own, const std::vector<int64_t> &ids);
  void step(OwnSearch &own, std::vector<Result> &done);

  const ServiceOptions options;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<Key, Arrival> waiting;
  std::map<int64_t, Key> waiting_ids;
  std::unordered_map<int64_t, Place> under_way;
  std::vector<Worker> workers;
  bool is_open = true;
};

}  // namespace fastdec
