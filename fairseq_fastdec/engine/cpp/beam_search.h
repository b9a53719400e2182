// Beam search for batches and streams, with beams of variable width (Yang et al. 2020).

#pragma once

#include "beams.h"
#include "search.h"

namespace fastdec {

class BeamSearch : public Search {
 public:
  BeamSearch(Models models, Rules rules, const BeamOptions &options);

  void set_schedule(const ScheduleOptions &given) override { schedule = {given, options.beam}; }

  // Constraints decide which candidates stay, so that neither their scores nor draws can.
  bool takes_constraints() const override {
    return !options.sampling && !options.is_papers() && !options.match_source_len &&
           !options.diverse_beam_groups && options.prune_threshold == INFINITY;
  }

 private:
  int64_t n_under_way() const override { return int64_t(slots_under_way.size()); }
  std::vector<const Request *> under_way() const override;
  // Algorithm 1: refill.
  int64_t n_due() override;
  void begin(Request request) override;
  void step() override;
  bool drop(int64_t id) override;
  // Chooses the beams to expand, and moves their rows to the end (Algorithm 1: choose).
  void choose();
  // Feeds the beams in focus, and computes their candidates (Algorithm 1: expand).
  void expand();
  void draw(const BeamRows &rows);
  // Adds the attention of the expanded entries to their beams.
  void keep_attention();
  // Sets whether a row may end, with --match-source-len.
  void match_length(int64_t row, int64_t step, const Request &sentence);
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
  std::vector<Request> sentences;    // by slot
  std::vector<int64_t> slots_under_way;  // in the order of their rows in the decoder
  int64_t n_resting = 0;                 // the number of first slots that are not expanded
  Extensions candidates;
};

}  // namespace fastdec
