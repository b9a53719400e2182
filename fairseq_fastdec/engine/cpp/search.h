// The base of all searches: sentences wait, join, are decoded together, and are done.
//
// Sentences join and leave while others are being decoded. The result of a sentence does not depend
// on the others.

#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "../kernels/cpp/pool.h"
#include "counts.h"
#include "rules.h"
#include "schedule.h"

namespace fastdec {

// Decodes sentences step by step. Not thread-safe.
class Search {
 public:
  virtual ~Search() = default;

  // Adds a sentence to the queue. Sentences begin in this order.
  void admit(Request request) { waiting.push_back(std::move(request)); }

  // Runs at most n_steps steps, in at most n_threads threads; returns the number of sentences that
  // are not done.
  int64_t advance(int64_t n_steps, int64_t n_threads) {
    const Decoding decoding;
    for (; n_steps > 0; --n_steps) {
      clock = {};
      decoder.set_threads(Decoding::share(n_threads));
      join();
      if (!n_under_way()) break;
      step();
      clock.count(counters.seconds.search);
    }
    return int64_t(waiting.size()) + n_under_way();
  }

  // The sentences that have finished since the last call.
  std::vector<Result> finished() { return std::exchange(done, {}); }

  // Removes a sentence that waits or is being decoded; returns whether it was found.
  bool cancel(int64_t id) {
    for (auto request = waiting.begin(); request != waiting.end(); ++request)
      if (request->id == id) {
        waiting.erase(request);
        return true;
      }
    return drop(id);
  }

  const Counts &counts() const { return counters; }

  // Whether drafts of requests are verified, and the output does not depend on them.
  virtual bool verifies_drafts() const { return false; }

  // Whether requests may have constraints, and forbidden phrases.
  virtual bool takes_constraints() const { return false; }
  virtual bool forbids_phrases() const { return true; }

  // How much is decoded at once.
  virtual void set_schedule(const ScheduleOptions &) {}

 protected:
  // n_best: the number of tokens that are chosen from each distribution
  Search(Models models, Rules given, int64_t n_best)
      : rules(std::move(given)),
        outputs(models, rules),
        decoder(std::move(models)),
        chooser(rules, outputs, n_best) {}

  virtual int64_t n_under_way() const = 0;
  virtual std::vector<const Request *> under_way() const = 0;
  // The number of waiting sentences that may begin now; it may exceed the length of the queue.
  virtual int64_t n_due() = 0;
  // A sentence joins. Its row has been appended to the decoder, in the order of these calls.
  virtual void begin(Request request) = 0;
  virtual void step() = 0;
  // Removes a sentence that is being decoded; returns whether it was found.
  virtual bool drop(int64_t id) = 0;

  // Removes n rows of the decoder.
  void drop_rows(int64_t first, int64_t n) {
    std::vector<int64_t> rows(decoder.n_rows());
    std::iota(rows.begin(), rows.end(), 0);
    rows.erase(rows.begin() + first, rows.begin() + first + n);
    decoder.gather(rows);
  }

  const Rules rules;
  OutputLayers outputs;
  Decoder decoder;
  Chooser chooser;
  std::deque<Request> waiting;
  std::vector<Result> done;
  Limits limits;
  Counts counters;
  Clock clock;  // of the current step

 private:
  void join() {
    if (waiting.empty()) return;
    const int64_t n = std::min<int64_t>(n_due(), int64_t(waiting.size()));
    if (n <= 0) return;
    std::vector<const Request *> sentences;
    for (int64_t i = 0; i < n; ++i) sentences.push_back(&waiting[i]);
    clock.count(counters.seconds.search);
    decoder.add(sentences);
    clock.count(counters.seconds.encoder);
    ++counters.encoder_invocations;
    for (int64_t i = 0; i < n; ++i) {
      Request request = std::move(waiting.front());
      waiting.pop_front();
      request.states.clear();
      request.outputs = outputs.of_types(request.types);
      begin(std::move(request));
    }
    std::vector<const std::vector<int64_t> *> types;
    bool needs_attention = false;
    for (const Request *request : under_way()) {
      types.push_back(&request->types);
      needs_attention |= request->return_attention;
    }
    outputs.allow(types);
    decoder.record_attention(needs_attention);
  }
};

// Makes a search without sentences, always with the same models, rules and options.
using MakeSearch = std::function<std::unique_ptr<Search>()>;

}  // namespace fastdec
