// Guesses at what follows an output, for tokens that no model has answered yet (--draft).

#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "rows.h"

namespace fastdec {

struct DraftOptions {
  std::string kind = "pad";  // pad, copy, previous, ngram or source
  int64_t order = 0;         // n of the longest n-grams
  bool across_sentences = false;  // n-grams come from all outputs of the run
  bool replaces_answers = false;  // n-grams come before answers that are not settled
  std::vector<int64_t> target_types;  // of each type of the source's; PAD where there is none
};

// The token that last followed each context of 1 to order - 1 tokens. Memory is bounded: when the
// younger of two generations of contexts is full, the older one is forgotten.
class NgramPool {
 public:
  explicit NgramPool(int64_t order) : n_context(order - 1) {}

  // The last token of an output [begin, end) follows the ones before it.
  void remember(const int64_t *begin, const int64_t *end);
  // The token that last followed the longest known context at the end; -1 where none is known.
  int64_t recall(const int64_t *begin, const int64_t *end) const;

 private:
  using Successors = std::unordered_map<uint64_t, int32_t>;
  static constexpr size_t CAPACITY = 500'000;

  int64_t n_context;
  Successors young, old;
};

// Guesses tokens of rows. A wrong guess costs an invocation, and never changes an output.
class Guesser {
 public:
  Guesser(DraftOptions options, int64_t pad);

  // A sentence joins or leaves.
  void begin(Row &row);
  void end(const Row &row);

  // Replaces guesses [n] at what follows a context. The first n_answered are the model's answers to
  // the last step, and padding follows.
  void guess(const Row &row, const std::vector<int64_t> &context, int64_t *tokens, int64_t n,
             int64_t n_answered);

  // Looks at a context, of which the row may have learned a part.
  void learn(Row &row, const std::vector<int64_t> &context);

 private:
  bool looks_up() const { return options.kind == "ngram" || options.kind == "source"; }
  NgramPool &pool_of(const Row &row);

  const DraftOptions options;
  const int64_t pad;
  NgramPool of_run;
  std::unordered_map<int64_t, NgramPool> of_sentences;  // by the requests' numbers
};

}  // namespace fastdec
