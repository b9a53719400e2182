// Sentences that arrive one by one join the batches of several threads, and leave them: streaming's
// refill (Yang et al. 2020) without an end.

#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "beam_search.h"
#include "search.h"

namespace fastdec {

// A sentence that is done.
struct Ended {
  int64_t id = 0;
  std::vector<Hypothesis> hypotheses;  // in any order; their totals are those of beams
  std::string error;                   // why there are none
};

inline Ended ended_of(Translation own) {
  return {own.id, {{std::move(own.tokens), std::move(own.scores), 0}}, {}};
}
inline Ended ended_of(BeamResult own) { return {own.id, std::move(own.hypotheses), {}}; }

// A search of any kind.
class Batch {
 public:
  virtual ~Batch() = default;
  // Takes a step, and appends the sentences that it ends.
  virtual void advance(int64_t n_threads, std::vector<Ended> &ended) = 0;
  virtual void cancel(int64_t id) = 0;
};

template <typename Kind>
class BatchOf : public Batch {
 public:
  explicit BatchOf(std::unique_ptr<Kind> search) : search(std::move(search)) {}

  void advance(int64_t n_threads, std::vector<Ended> &ended) override {
    search->advance(1, n_threads);
    for (auto &result : search->finished()) ended.push_back(ended_of(std::move(result)));
  }
  void cancel(int64_t id) override { search->cancel(id); }

  const std::unique_ptr<Kind> search;
};

// Sentences of one recipe share a batch.
struct Recipe {
  std::function<std::unique_ptr<Batch>()> begin;
};

// A sentence that waits.
struct Arrival {
  int64_t id = 0;  // those that arrive later have larger ones
  int64_t n_tokens = 0;
  std::shared_ptr<const Recipe> recipe;
  std::function<void(Batch &)> join;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

struct ServiceOptions {
  int64_t workers = 1;   // threads that decode
  int64_t capacity = 1;  // the most sentences that one of them decodes at once
  int64_t threads = 1;   // that a step may have if no other worker needs them
  // How long sentences may wait, in seconds, while more than half of a worker's capacity is in use,
  // so that more of them begin together.
  double max_wait = 0;
  // The waiting sentence with the fewest tokens begins next, and not the one that came first.
  bool takes_shortest = false;
  // A sentence that has waited longer, in seconds, begins before all others.
  double longest_wait = 2;
};

// Any number of threads may call the methods.
class Service {
 public:
  explicit Service(const ServiceOptions &options);
  ~Service() { close(); }
  Service(const Service &) = delete;
  Service &operator=(const Service &) = delete;

  // Returns whether the sentence is taken: not if most_waiting sentences wait already.
  bool submit(Arrival arrival, int64_t most_waiting);
  // Forgets a sentence; returns whether it was there.
  bool cancel(int64_t id);
  // Waits for sentences that are done; none if the service is closed and all have been collected.
  std::vector<Ended> collect();
  // How many sentences wait, and how many are under way.
  std::pair<int64_t, int64_t> queued();
  // Decodes what was submitted, and ends the threads.
  void close();

 private:
  struct OwnBatch {
    std::shared_ptr<const Recipe> recipe;
    std::unique_ptr<Batch> batch;
    std::unordered_set<int64_t> ids;
  };
  struct Worker {
    int64_t n_sentences = 0;
    std::vector<int64_t> cancelled;
    // Only its thread uses these; the recipe that was needed last stands last.
    std::vector<OwnBatch> batches;
    std::thread thread;
  };
  using Key = std::pair<int64_t, int64_t>;  // tokens if the shortest begins next, and the id

  void work(Worker &own);
  // With the lock.
  void deliver(Worker &own, std::vector<Ended> &ended);
  void take(Worker &own, std::vector<Arrival> &joining);
  Key next() const;
  double seconds_waiting() const;
  // Without.
  void join(Worker &own, Arrival &arrival, std::vector<Ended> &ended);
  void drop(Worker &own, const std::vector<int64_t> &ids);
  void step(OwnBatch &own, std::vector<Ended> &ended);

  const ServiceOptions options;
  std::mutex mutex;
  std::condition_variable arrived, ended_some;
  std::map<Key, Arrival> waiting;
  std::map<int64_t, Key> waiting_ids;
  std::unordered_map<int64_t, Worker *> under_way;
  std::vector<Ended> done;
  std::vector<Worker> workers;
  int64_t n_working;
  bool is_open = true;
};

}  // namespace fastdec
