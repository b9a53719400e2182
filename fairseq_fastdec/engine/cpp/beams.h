// The beams of sentences that are being decoded.
//
// An entry is a partial translation, stored as a token and a back-pointer to the entry that it
// continues. The rules for candidates that end, wait, are extended or pruned are in
// kernels/cpp/beams.h.

#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "sampling.h"

namespace fastdec {

// A finished translation.
struct Hypothesis {
  std::vector<int64_t> tokens;  // ending in EOS
  std::vector<float> scores;    // of each token
  float total = 0;              // their sum
};

struct BeamOptions {
  int64_t width = 1;  // K, the maximum number of entries of a beam
  // Delta (Yang et al. 2020, section 4): candidates that are worse than the best one by more than
  // this are pruned.
  float threshold = INFINITY;
  int64_t n_per_entry = 1;  // M, the maximum number of candidates that continue the same entry
  // Samples do not compete: they have no order, and none is pruned.
  std::optional<Sampling> sampling;
  // Candidates that have ended stay on the beam until no unfinished candidate is better (appendix
  // A.1). Otherwise they are final at once, as in fairseq, and others take their places.
  bool lets_wait = false;

  int64_t n_candidates() const { return lets_wait || sampling ? width : 2 * width; }
};

// A beam has a slot while its sentence is being decoded. A step expands the beams in focus, whose
// rows are consecutive, in the order of the entries.
class Beams {
 public:
  Beams(const BeamOptions &options, int64_t eos);

  // Creates a beam with one entry, the token before the output; returns its slot.
  int64_t begin(int64_t bos);
  // Frees a slot.
  void end(int64_t slot) { free_slots.push_back(slot); }

  int64_t length(int64_t slot) const { return table.lengths[slot]; }
  int64_t width(int64_t slot) const { return table.widths[slot]; }
  int64_t n_waiting(int64_t slot) const { return table.n_waiting[slot]; }
  // The number of expansions of the beam, and of expanded entries.
  int64_t steps(int64_t slot) const { return table.steps[slot]; }
  int64_t expansions(int64_t slot) const { return table.expansions[slot]; }

  // Sets the beams that are expanded next.
  void focus(const std::vector<int64_t> &slots);
  BeamRows rows() const { return {table.n_beams, table.n_rows, table.starts, table.totals}; }
  const int64_t *next_tokens() const { return table.next_tokens; }
  int64_t slot_of(int64_t row) const { return table.row_slots[row]; }
  // The token before the output of a row, and the output so far.
  std::vector<int64_t> context(int64_t row) const;

  // Finalizes, keeps or prunes the candidates of the beams in focus.
  void judge(const Extensions &candidates);
  // Whether the sentence of a beam in focus is done.
  bool is_done(int64_t beam) const { return table.done[beam]; }
  // Replaces the beams in focus at these places by their extended candidates.
  //   origins: the row in focus that each new row continues, beam by beam
  void extend(const std::vector<int64_t> &places, std::vector<int64_t> &origins);
  // The hypotheses of a beam that is done; if there are none, its first entry followed by EOS.
  std::vector<Hypothesis> hypotheses(int64_t slot);

 private:
  void reserve_slots(int64_t n);
  void reserve_lengths(int64_t n);
  void reserve_beams(int64_t n);
  int64_t entry(int64_t slot, int64_t length, int64_t column) const {
    return (slot * table.n_lengths + length) * table.width + column;
  }

  BeamTable table = {};
  std::vector<int64_t> free_slots;
  // The memory of the table's arrays, with similar names.
  std::vector<int64_t> lengths, widths, all_steps, all_expansions, n_final, n_waiting_of;
  std::vector<float> best_final, final_scores, waiting_scores;
  std::vector<int64_t> final_lengths, final_columns, waiting_lengths, waiting_columns;
  std::vector<int32_t> tokens, parents;
  std::vector<float> scores;
  std::vector<int64_t> in_focus, starts, row_slots, columns, fed_tokens, row_numbers, row_origins;
  std::vector<float> totals, child_scores;
  std::vector<int64_t> child_tokens, child_columns, child_rows;
  std::vector<uint8_t> done;
  Buffer<char> scratch;
};

}  // namespace fastdec
