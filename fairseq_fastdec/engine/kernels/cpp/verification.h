// From blocks to what their rows keep: who hands what to whom.

#pragma once

#include <algorithm>

#include "structures.h"

namespace fastdec {
namespace {

// The step's features are p_1's inputs, and p_1's answers are those that the blocks are judged by.
void hand_over(const Verification &task) {
  Step &step = *task.step;
  BestToken &best = *task.best;
  Blocks &blocks = *task.blocks;
  step.n_new = blocks.rows.n_new;
  step.tokens = blocks.tokens, step.parents = blocks.parents, step.features = blocks.features;
  best.n = step.n_rows * step.n_new, best.n_threads = step.n_threads, best.normalize = 1;
  best.x = blocks.features, best.scores = blocks.answer_scores, best.tokens = blocks.answers;
  best.asked = best.forbidden = nullptr;
  best.n_forbidden = 0;
  if (Heads *const heads = task.heads) {
    heads->n = best.n, heads->n_threads = step.n_threads;
    heads->x = blocks.features, heads->y = task.states;
    best.x = task.states;
  }
  blocks.verdict = nullptr;
  blocks.own_scores = nullptr;
}

// What is accepted of chains stays where the step has written its keys and values.
void extend_past(Verification &task) {
  const Step &step = *task.step;
  for (int64_t row = 0; row < step.n_rows; ++row) step.past[row] += task.blocks->accepted[row];
  const auto [shortest, longest] = std::minmax_element(step.past, step.past + step.n_rows);
  if (step.n_rows) task.shortest = *shortest, task.longest = *longest;
}

}  // namespace
}  // namespace fastdec
