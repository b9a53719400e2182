// The loop that all searches share: sentences wait, join, take steps together, and are done.
//
// Sentences join and leave while others are under way; what a sentence gets does not depend on them,
// but for the types of shortlists.

#pragma once

#include <deque>
#include <numeric>
#include <utility>

#include "pool.h"
#include "rules.h"

namespace fastdec {

// A search has sentences under way, and a step for all of them. For one thread at a time.
//   Given: a Request, of a sentence that waits
//   Result: a sentence that is done
//   Tally: Counts
template <typename Given, typename Result, typename Tally>
class Loop {
 public:
  virtual ~Loop() = default;

  // Sentences begin in the order in which they are admitted.
  void admit(Given request) { waiting.push_back(std::move(request)); }

  // Takes at most n steps, in at most n_threads threads; returns how many sentences are not done.
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

  // The sentences that are done since the last call.
  std::vector<Result> finished() { return std::exchange(done, {}); }

  // Forgets a sentence, wherever it is; returns whether it was there.
  bool cancel(int64_t id) {
    for (auto request = waiting.begin(); request != waiting.end(); ++request)
      if (request->id == id) {
        waiting.erase(request);
        return true;
      }
    return drop(id);
  }

  const Tally &counts() const { return counters; }

 protected:
  // n_best: the tokens that are chosen of each distribution
  Loop(Models models, Rules given, int64_t n_best, Team team)
      : rules(std::move(given)),
        outputs(models, rules),
        decoder(std::move(models), team),
        chooser(rules, outputs, n_best) {}

  virtual int64_t n_under_way() const = 0;
  virtual std::vector<const Request *> under_way() const = 0;
  // How many of the waiting sentences may begin now; there need not be so many.
  virtual int64_t n_due() = 0;
  // A sentence joins. The decoder has its row already: rows are in the order of these calls.
  virtual void begin(Given request) = 0;
  virtual void step() = 0;
  // Forgets a sentence under way; returns whether it was there.
  virtual bool drop(int64_t id) = 0;

  // Forgets n rows of the decoder.
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
  std::deque<Given> waiting;
  std::vector<Result> done;
  Limits limits;
  Tally counters;
  Clock clock;  // of the step under way

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
      Given request = std::move(waiting.front());
      waiting.pop_front();
      request.states.clear();
      begin(std::move(request));
    }
    std::vector<const std::vector<int64_t> *> types;
    for (const Request *request : under_way()) types.push_back(&request->types);
    outputs.allow(types);
  }
};

}  // namespace fastdec
