// Trees of proposals: the most probable continuations of parallel heads.

#pragma once

#include <algorithm>
#include <cmath>
#include <queue>
#include <vector>

#include "structures.h"

namespace fastdec {
namespace {

// A token that may be added to a tree. Its cost is the negative log-probability of its path.
struct Branch {
  double cost;
  int64_t parent, head, rank;

  // For equal costs, smaller parents, heads and ranks come first.
  bool operator<(const Branch &other) const {
    if (cost != other.cost) return cost > other.cost;
    if (parent != other.parent) return parent > other.parent;
    if (head != other.head) return head > other.head;
    return rank > other.rank;
  }
};

// Writes a row's tree; returns its number of tokens.
int64_t grow_tree(const Trees &task, int64_t row) {
  const int64_t n_best = task.n_best, at = row * (1 + task.n_proposals);
  int64_t *const tokens = task.tokens + at;
  int64_t *const parents = task.parents + at;
  int64_t *const depths = task.depths + at;
  const float *scores = task.scores + row * task.n_heads * n_best;
  const int64_t *ranked = task.ranked + row * task.n_heads * n_best;
  const auto score_of = [&](int64_t head, int64_t rank) {
    return double(scores[head * n_best + rank]);
  };
  std::priority_queue<Branch> waiting;
  const auto wait = [&](const Branch &branch) {
    if (branch.cost < INFINITY) waiting.push(branch);
  };
  tokens[0] = task.roots[row], parents[0] = -1, depths[0] = 0;
  int64_t n = 1;
  if (task.n_heads) wait({-score_of(0, 0), 0, 0, 0});
  for (; !waiting.empty() && n <= task.n_proposals; ++n) {
    const Branch best = waiting.top();
    waiting.pop();
    tokens[n] = ranked[best.head * n_best + best.rank];
    parents[n] = best.parent, depths[n] = best.head + 1;
    if (best.rank + 1 < n_best)
      wait({best.cost + score_of(best.head, best.rank) - score_of(best.head, best.rank + 1),
            best.parent, best.head, best.rank + 1});
    if (best.head + 1 < task.n_heads && tokens[n] != task.eos &&
        goes_on(float(-best.cost), task.confidence))
      wait({best.cost - score_of(best.head + 1, 0), n, best.head + 1, 0});
  }
  return n;
}

// Writes all trees side by side.
//   write: writes a row's tree at row * (1 + n_proposals); returns its number of tokens
template <typename Task, typename Write>
void put_trees_side_by_side(const Task &task, int64_t n_rows, Write write) {
  task.begins[0] = 0;
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t n = write(row), from = row * (1 + task.n_proposals), to = task.begins[row];
    for (int64_t *of_trees : {task.tokens, task.parents, task.depths})
      std::copy_n(of_trees + from, n, of_trees + to);
    task.begins[row + 1] = to + n;
  }
}

}  // namespace
}  // namespace fastdec
