// Chains of proposals by heads that see the tokens before theirs.

#pragma once

#include <algorithm>
#include <cmath>

#include "structures.h"

namespace {

// Adds to each row's chain the token that step `step` has chosen; returns whether the chains go on.
// Nothing follows an end of sentence.
INLINE bool prolong_chains(const DraftChains &task, int64_t step) {
  const BestToken &best = *task.best;
  const int64_t eos = best.types && best.eos >= 0 ? best.types[best.eos] : best.eos;
  double chances = 0;
  for (int64_t row = 0; row < best.n; ++row) {
    task.proposals[row * task.n_steps + step] = best.tokens[row];
    float &score = task.path_scores[row];
    score = best.tokens[row] == eos ? -INFINITY : score + best.scores[row];
    chances += std::exp(score);
  }
  return !(task.confidence > 0) || chances >= double(task.confidence) * double(best.n);
}

// Leaves the first n of each row's n_steps places.
INLINE void put_chains_side_by_side(const DraftChains &task, int64_t n) {
  for (int64_t row = 1; row < task.best->n && n < task.n_steps; ++row)
    std::copy_n(task.proposals + row * task.n_steps, n, task.proposals + row * n);
}

}  // namespace
