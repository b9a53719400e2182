// Assertions that a task stays within its memory, for the build with sanitizers: AddressSanitizer
// does not detect a wrong place within an allocation. binding.cpp checks all input from Python.

#pragma once

#include <cassert>

#include "structures.h"

namespace fastdec {
namespace {

// Checks the rows of a step or of sequential heads.
inline void assert_inputs(const Step &step, const Cache &sources) {
  assert(step.n_sources <= sources.slots);
  assert(step.begins[0] == 0);
  for (int64_t row = 0; row < step.n_rows; ++row) {
    assert(step.n_new(row) >= 0);
    assert(is_within(step.row_source[row], step.n_sources));
    assert(is_within(step.source_lengths[step.row_source[row]], sources.length + 1));
  }
  for (int64_t at = 0; at < step.n(); ++at)
    assert(is_within(step.tokens[at], step.network.n_types));
}

inline void assert_fits(const Step &step) {
  // An encoder's rows are their own sources.
  assert_inputs(step, step.network.tokens_per_step ? step.sources : step.rows);
  for (int64_t row = 0; row < step.n_rows; ++row) {
    assert(is_within(step.slot_of(row), step.rows.slots));
    const int64_t past = step.past[row], length = past + step.n_new(row);
    assert(is_within(past, step.rows.length - step.n_new(row) + 1));
    for (int64_t token = 0; token < length; ++token) {
      assert(is_within(step.slot_of_token(row, token), step.rows.slots));
      assert(token < past || step.slot_of_token(row, token) == step.slot_of(row));
    }
    assert(!step.network.tokens_per_step || step.n_new(row) % step.network.tokens_per_step == 0);
    assert(!step.attention || step.source_lengths[step.row_source[row]] <= step.attention_width);
  }
}

inline void assert_fits(const SequentialHeads &heads) {
  assert_inputs(heads.step, heads.step.sources);
}

inline void assert_fits(const Choice &task) {
  assert(is_within(task.eos, task.outputs) && task.penalized < task.outputs);
}

}  // namespace
}  // namespace fastdec
