// The best tokens of each row of scores.

#pragma once

#include <cmath>

#include "products.h"

namespace {

struct Choice {
  const Threads *threads;
  int64_t n_rows, n_types, n_best, n_threads;
  int64_t normalize;      // the scores are logits, to become log-probabilities
  const int64_t *never;   // [n_never], tokens that are not possible
  int64_t n_never, eos;
  int64_t penalized;  // a token whose score loses the penalty, or -1
  float penalty;
  const float *scores;    // [n_rows, n_types]
  const int64_t *only;    // [n_rows], the one token that is possible, or -1; 0: any
  const uint8_t *no_end;  // [n_rows], whether EOS is not possible; 0: it is
  float *best;            // [n_rows, n_best], best first; -infinity: none
  int64_t *tokens;        // [n_rows, n_best]
};

// The best ones so far, in the row's own place of the result.
struct Best {
  float *scores;
  int64_t *tokens;
  int64_t n;

  float least() const { return scores[n - 1]; }

  // Among equals the first stays first.
  void add(float score, int64_t token) {
    int64_t place = n - 1;
    for (; place && score > scores[place - 1]; --place) {
      scores[place] = scores[place - 1];
      tokens[place] = tokens[place - 1];
    }
    scores[place] = score;
    tokens[place] = token;
  }
};

// Registers that are looked through together.
constexpr int CHUNK = 4;

template <typename Lanes>
struct Chunk {
  Lanes parts[CHUNK];
};

// Of the last chunk, what is beyond the row's end is -infinity.
template <typename Lanes>
INLINE Chunk<Lanes> chunk_at(const float *x, int64_t left) {
  constexpr int SIZE = CHUNK * width<Lanes>();
  float filled[SIZE];
  if (left < SIZE) {
    for (int64_t i = 0; i < SIZE; ++i) filled[i] = i < left ? x[i] : -INFINITY;
    x = filled;
  }
  Chunk<Lanes> chunk;
  for (int part = 0; part < CHUNK; ++part)
    chunk.parts[part] = load<Lanes>(x + part * width<Lanes>());
  return chunk;
}

// What is subtracted from logits; NaN for rows of which no token has a probability.
struct Normalizer {
  float most = 0, log_sum = 0;
};

template <typename Lanes>
INLINE Normalizer normalizer(const float *x, int64_t n) {
  constexpr int SIZE = CHUNK * width<Lanes>();
  Lanes most = Lanes{} - INFINITY;
  typename Whole<Lanes>::Numbers unknown = {};
  for (int64_t at = 0; at < n; at += SIZE) {
    const Chunk<Lanes> chunk = chunk_at<Lanes>(x + at, n - at);
    for (const Lanes &part : chunk.parts) {
      most = part > most ? part : most;
      unknown |= ~(part < INFINITY);
    }
  }
  const float highest = greatest(most);
  if (any(unknown) || highest == -INFINITY) return {NAN, 0};
  float sum = 0;
  // A chunk at a time, so that long vocabularies are not summed up in few numbers.
  for (int64_t at = 0; at < n; at += SIZE) {
    const Chunk<Lanes> chunk = chunk_at<Lanes>(x + at, n - at);
    Lanes powers = {};
    for (const Lanes &part : chunk.parts) powers += exponential(part - highest);
    sum += total(powers);
  }
  return {highest, std::log(sum)};
}

INLINE bool is_possible(const Choice &choice, int64_t row, int64_t token) {
  if (token == choice.eos && choice.no_end && choice.no_end[row]) return false;
  for (int64_t i = 0; i < choice.n_never; ++i)
    if (token == choice.never[i]) return false;
  return true;
}

template <typename Lanes>
INLINE void find(const Choice &choice, int64_t row, const float *x, Best &best) {
  constexpr int SIZE = CHUNK * width<Lanes>();
  for (int64_t at = 0; at < choice.n_types; at += SIZE) {
    const Chunk<Lanes> chunk = chunk_at<Lanes>(x + at, choice.n_types - at);
    Lanes most = Lanes{} - INFINITY;
    for (const Lanes &part : chunk.parts) most = part > most ? part : most;
    if (!(greatest(most) > best.least())) continue;
    const int64_t end = std::min<int64_t>(at + SIZE, choice.n_types);
    for (int64_t token = at; token < end; ++token)
      if (x[token] > best.least() && token != choice.penalized && is_possible(choice, row, token))
        best.add(x[token], token);
  }
}

template <typename Lanes>
INLINE void best_of_row(const Choice &choice, int64_t row) {
  const float *x = choice.scores + row * choice.n_types;
  const int64_t n = choice.n_best, only = choice.only ? choice.only[row] : -1;
  Best best = {choice.best + row * n, choice.tokens + row * n, n};
  std::fill_n(best.scores, n, -INFINITY);
  std::fill_n(best.tokens, n, 0);
  const Normalizer norm = choice.normalize ? normalizer<Lanes>(x, choice.n_types) : Normalizer();
  if (std::isnan(norm.most)) return;
  const int64_t first = only < 0 ? choice.penalized : only;
  if (first >= 0 && is_possible(choice, row, first)) {
    const float score = x[first] - (first == choice.penalized ? choice.penalty : 0);
    if (score > -INFINITY) best.add(score, first);
  }
  if (only < 0) find<Lanes>(choice, row, x, best);
  for (int64_t i = 0; i < n; ++i) best.scores[i] = best.scores[i] - norm.most - norm.log_sum;
}

template <typename Lanes>
INLINE void best_of_rows(const Choice &choice, const Share &share) {
  for (int64_t row = share.number; row < choice.n_rows; row += share.count)
    best_of_row<Lanes>(choice, row);
}

}  // namespace
