// Tables of n-grams: the token that last followed each context of 1 to order - 1 tokens.

#pragma once

#include <algorithm>
#include <vector>

#include "structures.h"

namespace fastdec {
namespace {

// Spreads the bits of a number over all 64 (Steele, Lea, Flood 2014, "SplitMix").
INLINE uint64_t spread(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ull;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebull;
  return number ^ (number >> 31);
}

// The names of the contexts that end here, of 1, 2, ... tokens. Pools have different names for the
// same tokens. Two contexts with one name would only make a guess worse.
INLINE void name_contexts(const int64_t *end, int64_t n, int64_t pool, uint64_t *names) {
  uint64_t name = spread(pool + 1);
  for (int64_t i = 0; i < n; ++i) {
    name = spread(name + end[-1 - i] + 0x9e3779b97f4a7c15ull);
    names[i] = std::max<uint64_t>(name, 1);
  }
}

// The place of a context, or the free one that it would have.
INLINE int64_t find_context(const NgramTable &table, uint64_t name) {
  int64_t place = name & (table.size - 1);
  while (table.contexts[place] && table.contexts[place] != name)
    place = (place + 1) & (table.size - 1);
  return place;
}

INLINE void remember(NgramTable &table, uint64_t name, int64_t token) {
  const int64_t place = find_context(table, name);
  table.used += !table.contexts[place];
  table.contexts[place] = name;
  table.tokens[place] = token;
}

// The token that last followed a context; -1 for an unknown one.
INLINE int64_t recall(const NgramTable &table, uint64_t name) {
  if (!table.size) return -1;
  const int64_t place = find_context(table, name);
  return table.contexts[place] ? table.tokens[place] : -1;
}

// A row's last tokens, and room for n more.
INLINE std::vector<int64_t> history_of(const Ngrams &task, int64_t row, int64_t n) {
  const int64_t n_context = task.order - 1;
  const int64_t *context = task.contexts + task.sentences[row] * n_context;
  std::vector<int64_t> history(context, context + n_context);
  history.resize(n_context + n);
  return history;
}

// Rows have grown by their first `counts` tokens, up to an end of sentence. The table may remember
// what these followed.
void learn_ngrams(Ngrams &task) {
  const int64_t n_context = task.order - 1;
  uint64_t names[MAX_NGRAM_ORDER];
  for (int64_t row = 0; row < task.n_rows; ++row) {
    std::vector<int64_t> history = history_of(task, row, task.n);
    const int64_t *tokens = task.tokens + row * task.n;
    int64_t n = 0;
    while (n < task.counts[row] && !(n && tokens[n - 1] == task.eos)) {
      int64_t *const end = history.data() + n_context + n;
      if (task.remembers) {
        name_contexts(end, n_context, task.pools[task.sentences[row]], names);
        for (int64_t i = 0; i < n_context; ++i) remember(task.young, names[i], tokens[n]);
      }
      *end = tokens[n++];
    }
    std::copy_n(history.data() + n, n_context, task.contexts + task.sentences[row] * n_context);
  }
}

// Guesses of each row's next n tokens: the successor of the longest known context, or the token
// that is given. sizes says how long the context was, and 0 for given tokens.
void guess_tokens(const Ngrams &task) {
  const int64_t n_context = task.order - 1;
  uint64_t names[MAX_NGRAM_ORDER];
  for (int64_t row = 0; row < task.n_rows; ++row) {
    std::vector<int64_t> history = history_of(task, row, task.n);
    for (int64_t i = 0; i < task.n; ++i) {
      int64_t *const end = history.data() + n_context + i;
      const int64_t at = row * task.n + i;
      int64_t token = -1, size = i < task.counts[row] ? 0 : n_context;
      if (size) name_contexts(end, n_context, task.pools[task.sentences[row]], names);
      for (; size; --size) {
        token = recall(task.young, names[size - 1]);
        if (token < 0) token = recall(task.old, names[size - 1]);
        if (token >= 0) break;
      }
      *end = task.guesses[at] = size ? token : task.tokens[at];
      task.sizes[at] = size;
    }
  }
}

// Writes all contexts of one table into an empty one that is larger.
void copy_ngrams(const NgramTable &from, NgramTable &to) {
  for (int64_t place = 0; place < from.size; ++place)
    if (from.contexts[place]) remember(to, from.contexts[place], from.tokens[place]);
}

}  // namespace
}  // namespace fastdec
