// Rows grow by the tokens that a search keeps of them.

#pragma once

#include <algorithm>

#include "structures.h"

namespace fastdec {
namespace {

// How many of a row's first n new tokens it takes: those up to and including an end of sentence.
INLINE int64_t count_taken(const int64_t *tokens, int64_t n, int64_t eos) {
  const int64_t *end = std::find(tokens, tokens + n, eos);
  return end == tokens + n ? n : end - tokens + 1;
}

// Writes at each row's end the new tokens that it takes. Returns how many rows have ended.
int64_t append(const Append &task) {
  int64_t n_ended = 0;
  for (int64_t row = 0; row < task.n_rows; ++row) {
    const int64_t *tokens = task.new_tokens + row * task.n_new;
    const float *scores = task.new_scores + row * task.n_new;
    const int64_t n = task.counts ? task.counts[row] : task.count;
    const int64_t taken = count_taken(tokens, n, task.eos), length = task.lengths[row];
    int64_t *to = task.tokens + task.sentence[row] * task.width + length;
    float *scores_to = task.scores + task.sentence[row] * task.width + length;
    const int64_t room = std::min(taken, task.width - length);
    std::copy(tokens, tokens + room, to);
    std::copy(scores, scores + room, scores_to);
    const bool ends = taken && tokens[taken - 1] == task.eos;
    task.finished[row] |= ends;
    n_ended += ends;
    task.lengths[row] += taken;
    task.taken[row] = taken;
  }
  return n_ended;
}

}  // namespace
}  // namespace fastdec
