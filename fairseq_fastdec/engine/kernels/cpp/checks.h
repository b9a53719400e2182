// Whether a call stays within the memory that it names, as far as sizes and numbers tell.
//
// What a file can hold (token ids, lengths, sizes) is looked at here again, whoever has checked it
// before: one comparison for each number costs nothing beside what is done with it.

#pragma once

#include "top_k.h"
#include "row_moves.h"

namespace {

// What is wrong with a call; problems.py knows them by these numbers. Nothing has been done then.
enum Problem : int64_t { NONE, TOKENS, TREE, SIZES, LENGTHS, PLACES, SCRATCH };

INLINE bool is_within(int64_t number, int64_t end) { return number >= 0 && number < end; }

template <typename Task>
INLINE bool has_threads(const Task &task) {
  return task.n_threads == 1 || (task.n_threads > 1 && task.threads);
}

INLINE bool is_layer(const Linear &linear, int64_t inputs, int64_t outputs) {
  const bool has_weight = linear.weight || linear.halves || (linear.codes && linear.starts);
  return has_weight && linear.bias && inputs > 0 && outputs > 0 && linear.inputs == inputs &&
         linear.outputs == outputs;
}

// Whether each beam has rows of its own, and all of them are there.
INLINE bool are_beams(const Choice &choice) {
  const int64_t *starts = choice.starts;
  if (!starts || !choice.totals || starts[0] != 0) return false;
  for (int64_t beam = 0; beam < choice.n_beams; ++beam)
    if (starts[beam + 1] < starts[beam]) return false;
  if (starts[choice.n_beams] != choice.n_rows) return false;
  for (int64_t at = 0; at < choice.n_rows; ++at)
    if (!is_within(choice.rows[at], choice.n_rows)) return false;
  return true;
}

Problem problem_of(const Choice &choice) {
  const int64_t n_types = choice.n_types;
  if (choice.n_rows < 0 || choice.n_best < 1 || choice.n_beams < 0) return SIZES;
  if (choice.n_parts < 1 || (choice.n_beams && !choice.scratch)) return SIZES;
  if (choice.rows) {
    if (!are_beams(choice)) return PLACES;
  } else if (choice.n_best > n_types || choice.n_beams != choice.n_rows) {
    return SIZES;
  }
  if (choice.n_never < 0 || !has_threads(choice)) return SIZES;
  if (choice.penalized >= n_types) return TOKENS;
  for (int64_t row = 0; choice.only && row < choice.n_rows; ++row)
    if (!is_within(choice.only[row] + 1, n_types + 1)) return TOKENS;
  return NONE;
}

Problem problem_of(const Move &move) {
  if (move.n < 0 || move.used < 0 || move.used > move.head || !has_threads(move)) return SIZES;
  for (int64_t i = 0; i < move.n; ++i)
    if (!is_within(move.origins[i], move.n_slots) || !is_within(move.places[i], move.n_slots))
      return PLACES;
  return NONE;
}

}  // namespace
