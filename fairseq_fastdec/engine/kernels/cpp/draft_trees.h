// Trees of proposals of sequential heads, level by level.

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "trees.h"

namespace fastdec {
namespace {

// A path of a tree: a token that extends an earlier path, or the root (parent -1).
struct Path {
  int64_t token, parent, depth, slot;  // slot: the state of its row that predicted the token
  float score;
};

struct MoreProbable {
  bool operator()(const Path &one, const Path &other) const { return one.score > other.score; }
};

// The paths of one row.
class RowPaths {
 public:
  // Adds the n best children of the level's paths.
  //   scores, tokens: [width of the level, n]
  void add_children(const float *scores, const int64_t *tokens, int64_t depth, int64_t n) {
    std::vector<Path> children;
    for (size_t slot = 0; slot < level.size(); ++slot)
      for (int64_t rank = 0; rank < n; ++rank) {
        const int64_t at = int64_t(slot) * n + rank;
        // Options can raise the score of unknown words, but a child is never more probable.
        const float score = level[slot].score + std::min(scores[at], 0.0f);
        if (score > -INFINITY)
          children.push_back({tokens[at], level[slot].place, depth, int64_t(slot), score});
      }
    std::stable_sort(children.begin(), children.end(), MoreProbable());
    if (int64_t(children.size()) > n) children.resize(n);
    first_child = found.size();
    found.insert(found.end(), children.begin(), children.end());
  }

  // Chooses the next level: the last children whose own children can still be among the n best
  // paths.
  void choose_level(const DraftTrees &task) {
    const int64_t n = task.n_proposals;
    float least = -INFINITY;
    if (int64_t(found.size()) > n) {
      // A child is never more probable than its parent.
      std::vector<Path> all = found;
      std::nth_element(all.begin(), all.begin() + n - 1, all.end(), MoreProbable());
      least = all[n - 1].score;
    }
    level.clear();
    for (size_t at = first_child; at < found.size() && int64_t(level.size()) < task.width; ++at)
      if (found[at].token != task.eos && found[at].score > least &&
          goes_on(found[at].score, task.confidence))
        level.push_back({int64_t(at), found[at].score});
  }

  // Writes the tree of the n best paths; returns its number of tokens.
  int64_t write(const DraftTrees &task, int64_t row) const {
    const int64_t most = 1 + task.n_proposals;
    std::vector<int64_t> order(found.size()), places(found.size(), 0);
    for (size_t at = 0; at < order.size(); ++at) order[at] = int64_t(at);
    // A stable sort keeps parents before children: they are at least as probable.
    std::stable_sort(order.begin(), order.end(), [&](int64_t one, int64_t other) {
      return found[one].score > found[other].score;
    });
    int64_t n = row * most;
    const auto put = [&](const Path &path, int64_t parent) {
      task.tokens[n] = path.token, task.parents[n] = parent, task.depths[n++] = path.depth;
    };
    put({task.roots[row], -1, 0, 0, 0}, -1);
    for (size_t i = 0; i < order.size() && int64_t(i) < task.n_proposals; ++i) {
      const Path &path = found[order[i]];
      places[order[i]] = int64_t(i) + 1;
      put(path, path.parent < 0 ? 0 : places[path.parent]);
    }
    return n - row * most;
  }

  // A path to be extended: its index in `found`, and its score.
  struct Open {
    int64_t place;
    float score;
  };
  std::vector<Path> found;
  std::vector<Open> level = {{-1, 0}};
  size_t first_child = 0;
};

// The index of the first state of each row's next level, and the number of states.
INLINE std::vector<int64_t> begins_of(const std::vector<RowPaths> &rows) {
  std::vector<int64_t> begins = {0};
  for (const RowPaths &row : rows) begins.push_back(begins.back() + int64_t(row.level.size()));
  return begins;
}

// Lays out the states and tokens of a member's next level, row by row.
//   begins: of the next level; `step` still has those of the previous one
INLINE void lay_out_level(const DraftTrees &task, Step &step, const std::vector<RowPaths> &rows,
                          const std::vector<int64_t> &begins, std::vector<int64_t> &tokens) {
  const int64_t dim = step.model.dim;
  std::copy_n(step.features, step.n() * dim, task.states);
  tokens.resize(begins.back());
  for (size_t row = 0; row < rows.size(); ++row)
    for (int64_t at = begins[row]; at < begins[row + 1]; ++at) {
      const Path &path = rows[row].found[rows[row].level[at - begins[row]].place];
      const float *from = task.states + (step.begins[row] + path.slot) * dim;
      std::copy_n(from, dim, step.features + at * dim);
      tokens[at] = path.token;
    }
}

// Sets the flags for ends of the states of a level.
INLINE void take_flags(const DraftTrees &task, int64_t level, const std::vector<int64_t> &begins) {
  const int64_t n_rows = int64_t(begins.size()) - 1;
  const auto take = [&](const uint8_t *of_levels, uint8_t *to) -> const uint8_t * {
    if (!of_levels) return nullptr;
    for (int64_t row = 0; row < n_rows; ++row)
      std::fill(to + begins[row], to + begins[row + 1], of_levels[level * n_rows + row]);
    return to;
  };
  task.best->no_end = take(task.no_end, task.flags);
  task.best->only_end = take(task.only_end, task.flags + begins.back());
}

}  // namespace
}  // namespace fastdec
