// The best pairs of tokens that continue each beam: DOUBLETOPK of Imamura and Sumita 2020.
//
// generators/double_token says what all this means, in numpy; the results are the same.

#pragma once

#include <algorithm>
#include <cmath>

#include "beams.h"
#include "checks.h"

namespace fastdec {
namespace {

constexpr TokenPair NO_PAIR = {-INFINITY, {-INFINITY, -INFINITY}, 0, {0, 0}};

// Of a beam: its left tokens, best first, and with each the best right token not yet taken.
struct PairChoice {
  const DoubleTopK &task;
  int64_t beam;
  int64_t *next;  // [n_best], the place of that right token
  bool goes_on;   // only pairs without an end are looked for

  int64_t left_at(int64_t i) const { return beam * task.n_best + i; }

  bool has_left(int64_t i) const {
    const int64_t left = left_at(i);
    if (!(task.scores[left] > -INFINITY)) return false;
    if (goes_on && task.tokens[left] == task.end) return false;
    // TopK lets each row end that has to, also a missing entry's.
    return task.totals[task.rows[left]] > -INFINITY;
  }

  // The entry of the beam that a left token continues.
  int64_t column_of(int64_t i) const {
    return task.rows[left_at(i)] / 2 - beam * task.n_entries;
  }

  int64_t right_at(int64_t i) const {
    const int64_t row = task.n_beams + beam * task.n_entries + column_of(i);
    return row * task.n_best + next[i];
  }

  void skip_ends(int64_t i) const {
    while (goes_on && next[i] < task.n_best && task.tokens[right_at(i)] == task.end) ++next[i];
  }

  void begin() const {
    std::fill_n(next, task.n_best, 0);
    for (int64_t i = 0; i < task.n_best; ++i)
      if (has_left(i)) skip_ends(i);
  }

  float total_of(int64_t i) const {
    if (!has_left(i) || next[i] == task.n_best) return -INFINITY;
    return task.scores[left_at(i)] + task.scores[right_at(i)];
  }

  // Takes the best pair that is left; among equals that of the better left token.
  TokenPair take() const {
    int64_t best = 0;
    float total = -INFINITY;
    for (int64_t i = 0; i < task.n_best; ++i) {
      const float own = total_of(i);
      if (own > total) total = own, best = i;
    }
    if (!(total > -INFINITY)) return NO_PAIR;
    const int64_t left = left_at(best), right = right_at(best);
    const float before = task.totals[task.rows[left]];
    const TokenPair pair = {total,
                            {task.scores[left] - before, task.scores[right]},
                            int32_t(column_of(best)),
                            {int32_t(task.tokens[left]), int32_t(task.tokens[right])}};
    ++next[best];
    skip_ends(best);
    return pair;
  }
};

INLINE void take_pairs(const DoubleTopK &task, int64_t beam, bool goes_on, TokenPair *to) {
  const PairChoice choice = {task, beam, static_cast<int64_t *>(task.scratch), goes_on};
  choice.begin();
  for (int64_t i = 0; i < task.width; ++i) to[i] = choice.take();
}

INLINE bool is_end(const DoubleTopK &task, const TokenPair &pair) {
  return pair.total > -INFINITY && (pair.tokens[0] == task.end || pair.tokens[1] == task.end);
}

// Lets the first pair that continues an entry stand where that entry stood.
INLINE void inherit_entries(const DoubleTopK &task, TokenPair *pairs) {
  const int64_t width = task.width;
  auto *parents = static_cast<int64_t *>(task.scratch), *heirs = parents + width;
  auto *children = reinterpret_cast<TokenPair *>(heirs + width);
  auto *is_heir = reinterpret_cast<uint8_t *>(children + width);
  for (int64_t i = 0; i < width; ++i) parents[i] = pairs[i].column;
  std::copy_n(pairs, width, children);
  inherit_rows(parents, width, heirs, is_heir);
  for (int64_t i = 0; i < width; ++i) pairs[i] = children[heirs[i]];
}

// The scratch memory in bytes.
INLINE int64_t double_top_k_scratch_size(const DoubleTopK &task) {
  const int64_t of_choice = task.n_best * sizeof(int64_t);
  const int64_t of_heirs = task.width * (2 * sizeof(int64_t) + sizeof(TokenPair) + 1);
  return std::max(of_choice, of_heirs);
}

// Writes what goes on to the rows that the next step is fed. Returns whether a row has to move.
bool feed_pairs(const DoubleTopK &task) {
  bool moves = task.n_entries != task.width;
  for (int64_t row = 0; row < task.n_beams * task.width; ++row) {
    const TokenPair &pair = task.going_on[row];
    std::copy_n(pair.tokens, 2, task.next_tokens + 2 * row);
    task.totals[2 * row] = pair.total, task.totals[2 * row + 1] = 0;
    task.origins[row] = row / task.width * task.n_entries + pair.column;
    moves |= task.origins[row] != row;
  }
  return moves;
}

// The W best pairs of each beam, and the W best without an end.
void double_top_k(DoubleTopK &task) {
  task.n_ends = task.n_lost = 0;
  for (int64_t beam = 0; beam < task.n_beams; ++beam) {
    TokenPair *const best = task.best + beam * task.width;
    TokenPair *const going_on = task.going_on + beam * task.width;
    take_pairs(task, beam, false, best);
    const int64_t n_ends = std::count_if(best, best + task.width,
                                         [&](const TokenPair &pair) { return is_end(task, pair); });
    // Mostly nothing ends, and the same pairs go on.
    if (n_ends)
      take_pairs(task, beam, true, going_on);
    else
      std::copy_n(best, task.width, going_on);
    task.n_ends += n_ends;
    task.n_lost += !(going_on->total > -INFINITY);
    inherit_entries(task, going_on);
  }
  task.moves = feed_pairs(task);
}

Problem problem_of(const DoubleTopK &task) {
  const int64_t n_beams = task.n_beams, n_rows = n_beams * task.n_entries;
  if (n_beams < 0 || task.n_entries < 1 || task.width < 1 || task.n_best < 1) return SIZES;
  if (n_beams * std::max(task.width, task.n_entries) > task.most_rows) return PLACES;
  for (int64_t at = 0; at < n_beams * task.n_best; ++at) {
    const int64_t first = at / task.n_best * task.n_entries;
    const bool is_there = task.scores[at] > -INFINITY;
    if (is_there && !is_within(task.rows[at] / 2 - first, task.n_entries)) return PLACES;
    if (is_there && !is_within(task.rows[at], 2 * n_rows)) return PLACES;
  }
  return double_top_k_scratch_size(task) > task.scratch_size ? SCRATCH : NONE;
}

}  // namespace
}  // namespace fastdec
