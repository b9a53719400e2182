// Beam search over sentences that come and go: batches, and streams (Yang et al. 2020).
//
// Beams have any width.

#pragma once

#include "beams.h"
#include "loop.h"
#include "schedule.h"

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

class BeamSearch : public Loop<BeamRequest, BeamResult, BeamCounts> {
 public:
  BeamSearch(Models models, Rules rules, const BeamOptions &options, Team team);

  // How much is decoded at once, from now on.
  void set_schedule(const ScheduleOptions &given) { schedule = {given, options.width}; }

  // The most entries of a beam.
  int64_t width() const { return options.width; }

 private:
  int64_t n_under_way() const override { return int64_t(slots_under_way.size()); }
  std::vector<const Request *> under_way() const override;
  // Algorithm 1: refill.
  int64_t n_due() override;
  void begin(BeamRequest request) override;
  void step() override;
  bool drop(int64_t id) override;
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

  const BeamOptions options;
  Schedule schedule;
  Beams beams;
  std::optional<Sampler> sampler;
  std::vector<BeamRequest> sentences;    // by slot
  std::vector<int64_t> slots_under_way;  // in the order of their rows in the decoder
  int64_t n_resting = 0;                 // of the slots under way, the first ones
  Extensions candidates;
};

}  // namespace fastdec
