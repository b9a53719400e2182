// Beam search for batches and streams, with beams of variable width (Yang et al. 2020).

#pragma once

#include "beams.h"
#include "loop.h"
#include "schedule.h"

namespace fastdec {

// A finished sentence.
struct BeamResult {
  int64_t id = 0;
  std::vector<Hypothesis> hypotheses;  // in the order in which they ended
  int64_t steps = 0, expansions = 0;   // the number of invocations, and of rows over all of them
};

struct BeamCounts : Counts {
  int64_t beam_steps = 0;  // the number of beams over all decoder invocations
  int64_t waiting = 0;     // the number of candidates on these beams that have ended
};

// A sentence to translate.
struct BeamRequest : Request {
  int64_t n_source = 0;  // tokens or frames, for the schedule
  uint64_t random_state = 0;  // for sampling
};

class BeamSearch : public Loop<BeamRequest, BeamResult, BeamCounts> {
 public:
  BeamSearch(Models models, Rules rules, const BeamOptions &options);

  // Sets how much is decoded at once.
  void set_schedule(const ScheduleOptions &given) { schedule = {given, options.width}; }

  // The maximum number of entries of a beam.
  int64_t width() const { return options.width; }

 private:
  int64_t n_under_way() const override { return int64_t(slots_under_way.size()); }
  std::vector<const Request *> under_way() const override;
  // Algorithm 1: refill.
  int64_t n_due() override;
  void begin(BeamRequest request) override;
  void step() override;
  bool drop(int64_t id) override;
  // Chooses the beams to expand, and moves their rows to the end (Algorithm 1: choose).
  void choose();
  // Feeds the beams in focus, and computes their candidates (Algorithm 1: expand).
  void expand();
  void draw(const BeamRows &rows);
  // Sets the limits of the next tokens of the rows in focus.
  void restrict();
  // Judges and extends candidates, and removes finished sentences.
  void keep();
  void leave(int64_t slot);
  // The first row of each beam in the decoder, and the end.
  std::vector<int64_t> first_rows() const;

  const BeamOptions options;
  Schedule schedule;
  Beams beams;
  std::optional<Sampler> sampler;
  std::vector<BeamRequest> sentences;    // by slot
  std::vector<int64_t> slots_under_way;  // in the order of their rows in the decoder
  int64_t n_resting = 0;                 // the number of first slots that are not expanded
  Extensions candidates;
};

}  // namespace fastdec
