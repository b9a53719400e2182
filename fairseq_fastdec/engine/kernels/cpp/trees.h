// Trees of proposals: the most probable continuations by heads that know nothing of each other.

#pragma once

#include <algorithm>
#include <cmath>
#include <queue>
#include <vector>

#include "structures.h"

namespace fastdec {
namespace {

// A token that may join a tree. The path to it costs the negative of its log-probability.
struct Branch {
  double cost;
  int64_t parent, head, rank;

  // Of equal costs the first parent's, head's and rank's branch is tried first.
  bool operator<(const Branch &other) const {
    if (cost != other.cost) return cost > other.cost;
    if (parent != other.parent) return parent > other.parent;
    if (head != other.head) return head > other.head;
    return rank > other.rank;
  }
};

// Writes a row's tree; returns how many tokens it has.
int64_t grow_tree(const Trees &task, int64_t row) {
  const int64_t n_best = task.n_best, at = row * (1 + task.n_proposals);
  int64_t *const tokens = task.tokens + at;
  int64_t *const parents = task.parents + at;
  int64_t *const depths = task.depths + at;
  float *const path_scores = task.path_scores + at;
  const float *scores = task.scores + row * task.n_heads * n_best;
  const int64_t *ranked = task.ranked + row * task.n_heads * n_best;
  const auto score_of = [&](int64_t head, int64_t rank) {
    return double(scores[head * n_best + rank]);
  };
  std::priority_queue<Branch> waiting;
  const auto wait = [&](const Branch &branch) {
    if (branch.cost < INFINITY) waiting.push(branch);
  };
  tokens[0] = task.roots[row], parents[0] = -1, depths[0] = 0, path_scores[0] = 0;
  int64_t n = 1;
  if (task.n_heads) wait({-score_of(0, 0), 0, 0, 0});
  for (; !waiting.empty() && n <= task.n_proposals; ++n) {
    const Branch best = waiting.top();
    waiting.pop();
    tokens[n] = ranked[best.head * n_best + best.rank];
    parents[n] = best.parent, depths[n] = best.head + 1, path_scores[n] = -best.cost;
    if (best.rank + 1 < n_best)
      wait({best.cost + score_of(best.head, best.rank) - score_of(best.head, best.rank + 1),
            best.parent, best.head, best.rank + 1});
    if (best.head + 1 < task.n_heads && tokens[n] != task.eos)
      wait({best.cost - score_of(best.head + 1, 0), n, best.head + 1, 0});
  }
  return n;
}

// Returns how many tokens the longest tree has. Shorter ones get padding, which nothing accepts,
// behind their roots; all lie side by side then.
//   write: writes a row's tree, 1 + n_proposals places behind that of the row before; returns how
//     many tokens it has
template <typename Write>
int64_t put_trees_side_by_side(const Trees &task, Write write) {
  const int64_t most = 1 + task.n_proposals;
  std::vector<int64_t> sizes(task.n_rows);
  int64_t longest = 1;
  for (int64_t row = 0; row < task.n_rows; ++row) {
    sizes[row] = write(row);
    longest = std::max(longest, sizes[row]);
  }
  for (int64_t row = 0; row < task.n_rows; ++row) {
    const int64_t from = row * most, to = row * longest, n = sizes[row];
    for (int64_t *of_tree : {task.tokens, task.parents, task.depths})
      std::copy_n(of_tree + from, n, of_tree + to);
    std::copy_n(task.path_scores + from, n, task.path_scores + to);
    std::fill(task.tokens + to + n, task.tokens + to + longest, task.pad);
    std::fill(task.parents + to + n, task.parents + to + longest, 0);
    std::fill(task.depths + to + n, task.depths + to + longest, 1);
    std::fill(task.path_scores + to + n, task.path_scores + to + longest, -INFINITY);
  }
  return longest;
}

int64_t grow_trees(const Trees &task) {
  return put_trees_side_by_side(task, [&](int64_t row) { return grow_tree(task, row); });
}

}  // namespace
}  // namespace fastdec
