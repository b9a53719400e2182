// The tokens that would repeat an n-gram: generators/repeated_ngrams.py says which these are.

#pragma once

#include <algorithm>
#include <vector>

#include "checks.h"

namespace fastdec {
namespace {

// Writes the tokens that followed the context's last `n_before` tokens where these came before, at
// most `most` of them; returns how many there are.
INLINE int64_t find_repeats(const int64_t *context, int64_t length, int64_t n_before, int64_t *to,
                            int64_t most) {
  if (length <= n_before) return 0;
  const int64_t *last = context + length - n_before;
  int64_t found = 0;
  for (int64_t at = 0; at + n_before < length; ++at) {
    if (!std::equal(last, last + n_before, context + at)) continue;
    if (found < most) to[found] = context[at + n_before];
    ++found;
  }
  return found;
}

// Writes a tree's path to a token behind the row's own; returns the end of the path.
INLINE int64_t *write_path(const int64_t *tokens, const int64_t *parents, int64_t token,
                           int64_t *to) {
  int64_t depth = 0;
  for (int64_t at = token; at >= 0; at = parents[at]) to[depth++] = tokens[at];
  std::reverse(to, to + depth);
  return to + depth;
}

// Returns the most tokens that are forbidden after one of the new tokens. If that is more than there
// is room for, the caller makes room and asks again.
int64_t find_repeats(const Repeats &task) {
  const int64_t n_new = task.n_new, first = task.block ? task.first : 1;
  int64_t longest = 0, most = 0;
  for (int64_t row = 0; row < task.n_rows; ++row) longest = std::max(longest, task.lengths[row]);
  std::vector<int64_t> memory(1 + longest + n_new);
  int64_t *context = memory.data();
  context[0] = task.before_first;
  for (int64_t row = 0; row < task.n_rows; ++row) {
    const int64_t length = task.lengths[row], *own = task.tokens + task.starts[row];
    int64_t *behind = std::copy(own, own + length, context + 1);
    const int64_t *block = task.block ? task.block + row * n_new : nullptr;
    if (block && !task.parents) std::copy(block + first, block + n_new, behind);
    for (int64_t token = 0; token < n_new; ++token) {
      int64_t *end = behind + token + 1 - first;
      if (task.parents) end = write_path(block, task.parents + row * n_new, token, behind);
      int64_t *to = task.forbidden + (row * n_new + token) * task.most;
      const int64_t found = find_repeats(context, end - context, task.size - 1, to, task.most);
      std::fill(to + std::min(found, task.most), to + task.most, task.filler);
      most = std::max(most, found);
    }
  }
  return most;
}

Problem problem_of(const Repeats &task) {
  if (task.n_rows < 0 || task.n_new < 1 || task.size < 2 || task.most < 0) return SIZES;
  if (!is_within(task.first, 2) || (task.parents && (!task.block || task.first))) return SIZES;
  if (!task.block && task.n_new != 1) return SIZES;
  for (int64_t row = 0; row < task.n_rows; ++row) {
    if (!is_within(task.lengths[row], task.n_tokens + 1)) return LENGTHS;
    if (!is_within(task.starts[row], task.n_tokens - task.lengths[row] + 1)) return PLACES;
    for (int64_t token = 0; task.parents && token < task.n_new; ++token)
      if (!is_within(task.parents[row * task.n_new + token] + 1, token + 1)) return TREE;
  }
  return NONE;
}

}  // namespace
}  // namespace fastdec
