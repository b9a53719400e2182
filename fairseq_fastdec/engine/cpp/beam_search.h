// Beam search over sentences that come and go: batches, and streams (Yang et al. 2020).
//
// Beams have any width. What a sentence gets does not depend on those beside it, but for the types of
// shortlists.

#pragma once

#include <deque>

#include "beams.h"
#include "schedule.h"
#include "search.h"

namespace fastdec {

// A sentence that is done.
struct BeamResult {
  int64_t id = 0;
  std::vector<Hypothesis> hypotheses;  // in the order in which they ended
  int64_t steps = 0, expansions = 0;   // what it took: invocations, and rows over all of them
};

struct BeamCounts : Counts {
  int64_t beam_steps = 0;  // the beams of all decoder invocations
  int64_t waiting = 0;     // and the candidates on them that have ended
};

// A sentence to translate.
struct BeamRequest : Request {
  int64_t n_source = 0;  // tokens or frames, which schedules count
  uint64_t random_state = 0;  // for sampling
};

// For one thread at a time.
class BeamSearch {
 public:
  BeamSearch(Models models, Rules rules, const BeamOptions &options, Team team);

  // How much is decoded at once, from now on.
  void set_schedule(const ScheduleOptions &given) { schedule = {given, options.width}; }

  // Sentences begin in the order in which they are admitted.
  void admit(BeamRequest request) { waiting.push_back(std::move(request)); }

  // Takes at most n steps; returns how many sentences are not done.
  int64_t advance(int64_t n_steps, int64_t n_threads);

  // The sentences that are done since the last call.
  std::vector<BeamResult> finished();

  // Forgets a sentence, wherever it is; returns whether it was there.
  bool cancel(int64_t id);

  const BeamCounts &counts() const { return counters; }

 private:
  // Sentences begin (Algorithm 1: refill).
  void join();
  // Some of the beams rest, and the rows of the others come last (Algorithm 1: choose).
  void choose();
  // Feeds the beams in focus, and finds their candidates (Algorithm 1: expand).
  void expand();
  void draw(const BeamRows &rows);
  // What restricts the next tokens of the rows in focus.
  void restrict();
  // Candidates end, wait, grow or are forgotten; sentences that are done leave.
  void keep();
  void leave(int64_t slot);
  // The row of the decoder with which the beam at each place under way begins, and the end.
  std::vector<int64_t> first_rows() const;

  const Rules rules;
  const BeamOptions options;
  OutputLayers outputs;
  Decoder decoder;
  Chooser chooser;
  Schedule schedule;
  Beams beams;
  std::optional<Sampler> sampler;
  std::deque<BeamRequest> waiting;
  std::vector<BeamRequest> sentences;  // by slot
  std::vector<int64_t> under_way;      // slots, in the order of their rows in the decoder
  int64_t n_resting = 0;               // of the slots under way, the first ones
  Limits limits;
  Extensions candidates;
  std::vector<BeamResult> done;
  BeamCounts counters;
  Clock clock;  // of the step under way
};

}  // namespace fastdec
