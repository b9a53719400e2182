// The beams of the sentences under way: their entries, and how they grow.
//
// An entry is a beginning of a translation, kept as a back-pointer to the entry that it continues.
// The rules by which candidates end, wait, grow or are forgotten are in kernels/cpp/beams.h.

#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "sampling.h"

namespace fastdec {

// A translation that has ended.
struct Hypothesis {
  std::vector<int64_t> tokens;  // ending in EOS
  std::vector<float> scores;    // of each token
  float total = 0;              // their sum
};

struct BeamOptions {
  int64_t width = 1;  // K, the most entries of a beam
  // Delta (Yang et al. 2020, section 4): candidates that are worse than the best one by more are
  // forgotten.
  float threshold = INFINITY;
  int64_t n_per_entry = 1;  // M, the most candidates that continue the same entry
  // Samples do not compete: their order means nothing, and none is forgotten.
  std::optional<Sampling> sampling;
  // Candidates that have ended stay on the beam until nothing that still grows is better (appendix
  // A.1). Otherwise they are final at once, as in fairseq, and others grow in their places.
  bool lets_wait = false;

  int64_t n_candidates() const { return lets_wait || sampling ? width : 2 * width; }
};

// A beam has a slot while its sentence is under way. In a step some beams are in focus; their rows
// lie side by side, in the order of the entries.
class Beams {
 public:
  Beams(const BeamOptions &options, int64_t eos);

  // A beam with one entry, the token before the output; returns its slot.
  int64_t begin(int64_t bos);
  // Its slot is free for another sentence.
  void end(int64_t slot) { free_slots.push_back(slot); }

  int64_t length(int64_t slot) const { return table.lengths[slot]; }
  int64_t width(int64_t slot) const { return table.widths[slot]; }
  int64_t n_waiting(int64_t slot) const { return table.n_waiting[slot]; }
  // How often the beam was expanded, and how many entries over all of them.
  int64_t steps(int64_t slot) const { return table.steps[slot]; }
  int64_t expansions(int64_t slot) const { return table.expansions[slot]; }

  // The beams in these slots are expanded.
  void focus(const std::vector<int64_t> &slots);
  BeamRows rows() const { return {table.n_beams, table.n_rows, table.starts, table.totals}; }
  const int64_t *next_tokens() const { return table.next_tokens; }
  int64_t slot_of(int64_t row) const { return table.row_slots[row]; }
  // The token before the output of a row, and the output.
  std::vector<int64_t> context(int64_t row) const;

  // Finalizes, keeps or forgets the candidates of the beams in focus.
  void judge(const Extensions &candidates);
  // Whether the sentence of a beam in focus is done.
  bool is_done(int64_t beam) const { return table.done[beam]; }
  // The beams in focus at these places become what grows of their candidates.
  //   origins: the row in focus that each row continues, beam by beam
  void extend(const std::vector<int64_t> &places, std::vector<int64_t> &origins);
  // What a beam that is done has found; one without anything ends where it stands.
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
  // The memory of the table, by the names there.
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
