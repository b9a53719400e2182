// Guesses the tokens after an output without a model (--guess).

#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "rows.h"

namespace fastdec {

struct GuessOptions {
  std::string guess = "pad";        // pad, copy, previous, ngram or source
  int64_t ngram_order = 0;          // the size of the longest n-grams
  std::string ngram_pool = "sentence";  // or "run": n-grams come from all outputs of the run
  bool replaces_answers = false;    // n-grams take precedence over answers that are not settled
  std::vector<int64_t> target_types;  // the target type of each source type; PAD for none

  template <typename Visit>
  void each(Visit &&visit) {
    visit("guess", guess), visit("ngram_order", ngram_order), visit("ngram_pool", ngram_pool);
    visit("replaces_answers", replaces_answers), visit("target_types", target_types);
  }

  bool looks_up() const { return guess == "ngram" || guess == "source"; }
};

// The token that last followed each context of 1 to order - 1 tokens. Memory is bounded: there are
// two generations of contexts, and when the younger one is full, the older one is dropped.
class NgramPool {
 public:
  explicit NgramPool(int64_t order) : n_context(order - 1) {}

  // Learns the last token of an output [begin, end) as successor of the tokens before it.
  void remember(const int64_t *begin, const int64_t *end);
  // The token that last followed the longest known context at the end; -1 if none is known.
  int64_t recall(const int64_t *begin, const int64_t *end) const;

 private:
  using Successors = std::unordered_map<uint64_t, int32_t>;
  static constexpr size_t CAPACITY = 500'000;

  int64_t n_context;
  Successors young, old;
};

// Guesses tokens of rows. Wrong guesses cost invocations, but do not change the output.
class Guesser {
 public:
  Guesser(GuessOptions options, int64_t pad);

  // A sentence joins or leaves.
  void begin(Row &row);
  void end(const Row &row);

  // Updates tokens [n], the guesses after a context. On entry, the first n_answered are the model's
  // answers to the last step, followed by padding.
  void guess(const Row &row, const std::vector<int64_t> &context, int64_t *tokens, int64_t n,
             int64_t n_answered);

  // Learns n-grams of a context, except for the part that the row has already learned.
  void learn(Row &row, const std::vector<int64_t> &context);

 private:
  NgramPool &pool_of(const Row &row);

  const GuessOptions options;
  const int64_t pad;
  NgramPool of_run;
  std::unordered_map<int64_t, NgramPool> of_sentences;  // by the ids of the requests
};

}  // namespace fastdec
