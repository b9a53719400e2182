// Updates beams between two steps: candidates become final, are extended, wait or are pruned, and
// extended ones get rows.

#pragma once

#include <algorithm>
#include <cmath>

#include "assertions.h"
#include "processor.h"

namespace fastdec {
namespace {

// An entry of a beam with one more token, or a waiting candidate that has ended before.
struct Extension {
  float score;
  int64_t token, length, column, row;  // those of the entry
};

// The worst score that is not pruned.
INLINE float least_score(const BeamTable &table, float best, float best_final) {
  return std::max(best, best_final) - table.threshold;
}

// Collects the candidates of a beam, best first; for equal scores waiting ones come last. Returns
// their number.
int64_t take_candidates(const BeamTable &table, int64_t beam, Extension *to) {
  const int64_t slot = table.focus[beam], first = beam * table.n_candidates, width = table.width;
  int64_t n = 0, waiting = 0;
  const int64_t n_waiting = table.lets_wait ? table.n_waiting[slot] : 0;
  const float *waiting_scores = table.waiting_scores + slot * width;
  const auto take_waiting = [&]() {
    const int64_t at = slot * width + waiting++;
    to[n++] = {table.waiting_scores[at], table.eos, table.waiting_lengths[at],
               table.waiting_columns[at], 0};
  };
  for (int64_t i = 0; i < table.n_candidates; ++i) {
    const float score = table.candidate_scores[first + i];
    if (!(score > -INFINITY)) break;
    while (waiting < n_waiting && waiting_scores[waiting] > score) take_waiting();
    const int64_t row = table.candidate_rows[first + i];
    to[n++] = {score, table.candidate_tokens[first + i], table.lengths[slot], table.columns[row],
               row};
  }
  while (waiting < n_waiting) take_waiting();
  // Waiting candidates count for the width of the beam.
  return n_waiting ? std::min(n, width) : n;
}

INLINE void finish(BeamTable &table, int64_t slot, const Extension &one) {
  const int64_t at = slot * table.width + table.n_final[slot]++;
  table.final_scores[at] = one.score;
  table.final_lengths[at] = one.length;
  table.final_columns[at] = one.column;
  table.best_final[slot] = std::max(table.best_final[slot], one.score);
}

INLINE void let_wait(BeamTable &table, int64_t slot, const Extension &one) {
  const int64_t at = slot * table.width + table.n_waiting[slot]++;
  table.waiting_scores[at] = one.score;
  table.waiting_lengths[at] = one.length;
  table.waiting_columns[at] = one.column;
}

INLINE void let_grow(BeamTable &table, int64_t beam, const Extension &one) {
  const int64_t at = beam * table.width + table.widths[table.focus[beam]]++;
  table.child_scores[at] = one.score;
  table.child_tokens[at] = one.token;
  table.child_columns[at] = one.column;
  table.child_rows[at] = one.row;
}

// fairseq's rule: candidates that end are final at once if they are among the best `width`.
void judge_as_fairseq(BeamTable &table, int64_t beam, const Extension *candidates, int64_t n) {
  const int64_t slot = table.focus[beam];
  const float least = n ? least_score(table, candidates[0].score, table.best_final[slot]) : 0;
  for (int64_t i = 0; i < n && candidates[i].score >= least; ++i) {
    if (candidates[i].token != table.eos) {
      if (table.widths[slot] < table.width) let_grow(table, beam, candidates[i]);
    } else if (i < table.width && table.n_final[slot] < table.width) {
      finish(table, slot, candidates[i]);
    }
  }
}

// The paper's rule (Yang et al. 2020, appendix A.1): candidates that have ended are final once they
// are the best; others wait.
void judge_as_paper(BeamTable &table, int64_t beam, const Extension *candidates, int64_t n) {
  const int64_t slot = table.focus[beam];
  const float least = n ? least_score(table, candidates[0].score, table.best_final[slot]) : 0;
  int64_t i = 0;
  for (; i < n && candidates[i].token == table.eos; ++i)
    if (table.n_final[slot] < table.width) finish(table, slot, candidates[i]);
  int64_t left = table.width - table.n_final[slot];
  for (; i < n && left > 0 && candidates[i].score >= least; ++i, --left) {
    if (candidates[i].token == table.eos)
      let_wait(table, slot, candidates[i]);
    else
      let_grow(table, beam, candidates[i]);
  }
}

// Judges the candidates of all beams in focus; returns the number of beams that are done.
int64_t judge(BeamTable &table) {
  auto *candidates = static_cast<Extension *>(table.scratch);
  int64_t n_done = 0;
  for (int64_t beam = 0; beam < table.n_beams; ++beam) {
    const int64_t slot = table.focus[beam], n = take_candidates(table, beam, candidates);
    ++table.steps[slot];
    table.expansions[slot] += table.widths[slot];
    table.widths[slot] = table.n_waiting[slot] = 0;
    (table.lets_wait ? judge_as_paper : judge_as_fairseq)(table, beam, candidates, n);
    table.done[beam] = table.n_final[slot] >= table.width || table.widths[slot] == 0;
    n_done += table.done[beam];
  }
  return n_done;
}

// Appends a beam's children to the history.
INLINE void remember_children(BeamTable &table, int64_t beam) {
  const int64_t slot = table.focus[beam], width = table.width;
  const int64_t to = (slot * table.n_lengths + ++table.lengths[slot]) * width;
  for (int64_t column = 0; column < table.widths[slot]; ++column) {
    const int64_t from = beam * width + column;
    table.tokens[to + column] = int32_t(table.child_tokens[from]);
    table.parents[to + column] = int32_t(table.child_columns[from]);
    table.scores[to + column] = table.child_scores[from];
  }
}

// Assigns rows to children: the first child of a row takes over that row, if it still exists; the
// others get the remaining rows.
//   parents: [n], the row that each child continues
//   heirs: [n], the child of each row
INLINE void inherit_rows(const int64_t *parents, int64_t n, int64_t *heirs, uint8_t *is_heir) {
  std::fill(heirs, heirs + n, -1);
  std::fill(is_heir, is_heir + n, 0);
  for (int64_t child = n - 1; child >= 0; --child)
    if (parents[child] < n) heirs[parents[child]] = child;
  for (int64_t row = 0; row < n; ++row)
    if (heirs[row] >= 0) is_heir[heirs[row]] = 1;
  int64_t child = 0;
  for (int64_t row = 0; row < n; ++row) {
    if (heirs[row] >= 0) continue;
    while (is_heir[child]) ++child;
    heirs[row] = child++;
  }
}

// Replaces the beams in `order` by their children. Returns whether a row has to move.
bool extend(BeamTable &table) {
  const int64_t width = table.width, most = table.n_beams * width, n_rows = table.n_rows;
  auto *parents = static_cast<int64_t *>(table.scratch);
  int64_t *children = parents + most, *heirs = children + most;  // [most] each
  int64_t n = 0;
  table.shortest = INT64_MAX, table.longest = 0;
  for (int64_t place = 0; place < table.n_kept; ++place) {
    const int64_t beam = table.order ? table.order[place] : place, slot = table.focus[beam];
    remember_children(table, beam);
    table.shortest = std::min(table.shortest, table.lengths[slot]);
    table.longest = std::max(table.longest, table.lengths[slot]);
    table.starts[place] = n;
    for (int64_t column = 0; column < table.widths[slot]; ++column, ++n) {
      children[n] = beam * width + column;
      parents[n] = table.child_rows[children[n]];
    }
  }
  table.starts[table.n_kept] = n;
  inherit_rows(parents, n, heirs, reinterpret_cast<uint8_t *>(heirs + most));
  bool moves = n != n_rows;
  for (int64_t row = 0; row < n; ++row) {
    const int64_t child = heirs[row], at = children[child];
    table.row_slots[row] = table.focus[at / width];
    table.columns[row] = at % width;
    table.next_tokens[row] = table.child_tokens[at];
    table.totals[row] = table.child_scores[at];
    table.origins[row] = parents[child];
    table.rows[child] = row;
    moves |= parents[child] != row;
  }
  table.n_rows = n;
  if (!table.n_kept) table.shortest = 0;
  return moves;
}

// The bytes of scratch memory for judge() and extend().
int64_t beam_scratch_size(const BeamTable &table) {
  const int64_t most = table.n_beams * table.width;
  const int64_t judging = (table.n_candidates + table.width) * sizeof(Extension);
  return std::max<int64_t>(judging, most * (3 * sizeof(int64_t) + 1));
}

// Traces hypotheses back to their first token: see Trace.
void trace(const Trace &task) {
  const int64_t width = task.width;
  int64_t *tokens = task.tokens;
  float *scores = task.scores;
  for (int64_t i = 0; i < task.n; ++i) {
    const int64_t length = task.lengths[i], first = task.slots[i] * task.n_lengths * width;
    int64_t column = task.columns[i];
    float after = task.totals[i];
    tokens[length] = task.eos;
    for (int64_t at = length; at > 0; --at) {
      const int64_t entry = first + at * width + column;
      scores[at] = after - task.history_scores[entry];
      after = task.history_scores[entry];
      tokens[at - 1] = task.history_tokens[entry];
      column = task.history_parents[entry];
    }
    scores[0] = after;
    tokens += length + 1, scores += length + 1;
  }
}

}  // namespace
}  // namespace fastdec
