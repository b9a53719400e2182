#include "guesses.h"

#include <algorithm>

#include "mixing.h"

namespace fastdec {

namespace {

// The i-th token from the end; -1, which is no token, before the first one.
int64_t token_before(const int64_t *begin, const int64_t *end, int64_t i) {
  return end - begin > i ? end[-1 - i] : -1;
}

}  // namespace

void NgramPool::remember(const int64_t *begin, const int64_t *end) {
  const auto token = int32_t(end[-1]);
  // A collision of two contexts only makes a guess worse.
  uint64_t name = 0;
  for (int64_t i = 0; i < n_context; ++i) {
    name = mixed(name, token_before(begin, end - 1, i));
    young[name] = token;
  }
  if (young.size() > CAPACITY) {
    old = std::move(young);
    young.clear();
  }
}

int64_t NgramPool::recall(const int64_t *begin, const int64_t *end) const {
  uint64_t name = 0;
  int64_t found = -1;
  for (int64_t i = 0; i < n_context; ++i) {
    name = mixed(name, token_before(begin, end, i));
    for (const Successors *known : {&old, &young}) {
      const auto place = known->find(name);
      if (place != known->end()) found = place->second;
    }
  }
  return found;
}

Guesser::Guesser(GuessOptions given, int64_t pad)
    : options(std::move(given)), pad(pad), of_run(std::max<int64_t>(options.ngram_order, 1)) {}

NgramPool &Guesser::pool_of(const Row &row) {
  if (options.ngram_pool == "run") return of_run;
  return of_sentences.try_emplace(row.request.id, NgramPool(options.ngram_order)).first->second;
}

void Guesser::begin(Row &row) {
  const std::vector<int64_t> &source = row.request.source;
  if (options.guess != "source") return;
  std::vector<int64_t> mapped;
  for (const int64_t token : source) {
    mapped.push_back(options.target_types[token]);
    pool_of(row).remember(mapped.data(), mapped.data() + mapped.size());
  }
}

void Guesser::end(const Row &row) { of_sentences.erase(row.request.id); }

void Guesser::guess(const Row &row, const std::vector<int64_t> &context, int64_t *tokens,
                    int64_t n, int64_t n_answered) {
  // The output so far, without the token before it.
  const int64_t length = int64_t(context.size()) - 1;
  if (options.guess == "copy") {
    const std::vector<int64_t> &source = row.request.source;
    for (int64_t i = n_answered; i < n && length + i < int64_t(source.size()); ++i)
      tokens[i] = options.target_types[source[length + i]];
  } else if (options.guess == "previous") {
    for (int64_t i = n_answered; i < n; ++i) {
      const int64_t place = length - n + i;
      tokens[i] = place < 0 ? pad : context[1 + place];
    }
  } else if (options.looks_up()) {
    const NgramPool &pool = pool_of(row);
    std::vector<int64_t> history(context.begin() + 1, context.end());
    for (int64_t i = 0; i < n; ++i) {
      if (options.replaces_answers || i >= n_answered) {
        const int64_t found = pool.recall(history.data(), history.data() + history.size());
        if (found >= 0) tokens[i] = found;
      }
      history.push_back(tokens[i]);
    }
  }
}

void Guesser::learn(Row &row, const std::vector<int64_t> &context) {
  if (options.guess != "ngram") return;
  NgramPool &pool = pool_of(row);
  const int64_t length = int64_t(context.size()) - 1;
  const int64_t *const begin = context.data() + 1;
  for (; row.n_learned < length; ++row.n_learned) pool.remember(begin, begin + row.n_learned + 1);
}

}  // namespace fastdec
