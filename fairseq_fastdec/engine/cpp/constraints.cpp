#include "constraints.h"

#include <algorithm>

namespace fastdec {

Constraints::Constraints(const std::vector<Phrase> &phrases, bool ordered) {
  for (const Phrase &phrase : phrases) {
    if (stages.empty() || ordered) stages.push_back({{-1, -1, 0}});
    add(phrase, stages.back());
    n_all += int64_t(phrase.size());
  }
}

void Constraints::add(const Phrase &phrase, Trie &trie) {
  int64_t node = 0;
  ++trie[node].n_passing;
  for (int64_t token : phrase) {
    const std::vector<int64_t> &children = trie[node].children;
    const auto is_token = [&](int64_t child) { return trie[child].token == token; };
    const auto found = std::find_if(children.begin(), children.end(), is_token);
    int64_t child = int64_t(trie.size());
    if (found != children.end()) {
      child = *found;
    } else {
      trie[node].children.push_back(child);
      trie.push_back({token, node, trie[node].depth + 1});
    }
    node = child;
    ++trie[node].n_passing;
  }
  ++trie[node].n_ending;
}

Progress Constraints::begin() const {
  Progress progress;
  progress.n_passed.assign(stages[0].size(), 0);
  return progress;
}

int64_t Constraints::child_of(const Progress &progress, int64_t node, int64_t token) const {
  const Trie &trie = stages[progress.stage];
  for (int64_t child : trie[node].children)
    if ((token < 0 || trie[child].token == token) &&
        trie[child].n_passing > progress.n_passed[child])
      return child;
  return -1;
}

Progress Constraints::settled(const Progress &progress) const {
  Progress after = progress;
  const Trie &trie = stages[progress.stage];
  int64_t node = progress.node;
  const auto is_missing = [&] {
    int64_t n_ended = progress.n_passed[node];
    for (int64_t child : trie[node].children) n_ended -= progress.n_passed[child];
    return n_ended < trie[node].n_ending;
  };
  while (node && !is_missing()) node = trie[node].parent;
  after.node = 0, after.n_contained += trie[node].depth;
  for (int64_t at = node ? node : -1; at >= 0; at = trie[at].parent) ++after.n_passed[at];
  const bool is_complete = after.n_passed[0] == trie[0].n_passing;
  if (is_complete && progress.stage + 1 < int64_t(stages.size()))
    ++after.stage, after.n_passed.assign(stages[after.stage].size(), 0);
  return after;
}

Progress Constraints::after(const Progress &progress, int64_t token) const {
  Progress next = progress;
  next.node = child_of(progress, progress.node, token);
  if (next.node >= 0) return next;
  next = settled(progress);
  next.node = std::max<int64_t>(child_of(next, 0, token), 0);
  return next;
}

std::vector<int64_t> Constraints::next_tokens(const Progress &progress) const {
  std::vector<int64_t> tokens;
  const auto add_children = [&](const Progress &of) {
    const Trie &trie = stages[of.stage];
    for (int64_t child : trie[of.node].children) tokens.push_back(trie[child].token);
  };
  add_children(settled(progress));
  if (progress.node) add_children(progress);
  return tokens;
}

int64_t Constraints::due_token(const Progress &progress, int64_t step, int64_t max_len) const {
  const Progress left = settled(progress);
  if (n_all - left.n_contained < max_len - step) return -1;
  if (left.n_contained == n_all) return -1;
  const int64_t child = child_of(progress, progress.node, -1);
  if (child >= 0) return stages[progress.stage][child].token;
  return stages[left.stage][child_of(left, 0, -1)].token;
}

}  // namespace fastdec
