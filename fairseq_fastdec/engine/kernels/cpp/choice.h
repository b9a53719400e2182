// The rules of a choice, and the softmax of its logits, chunk by chunk.

#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "best_candidates.h"
#include "structures.h"

namespace fastdec {
namespace {

// Rounds up to a multiple of LANES, which is one of all vector widths.
INLINE int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

// Converts a state's logits to log-probabilities: x - largest - log_sum. `largest` is NaN for states
// at which no token has a probability.
struct Normalizer {
  float largest = 0, log_sum = 0;

  float log_prob(float logit) const { return logit - largest - log_sum; }
};

template <typename Vec>
INLINE float largest_of(const float *x, int64_t n) {
  Vec most = Vec{} - INFINITY;
  for (int64_t i = 0; i < n; i += width<Vec>()) {
    const Vec some = load_first<Vec>(x + i, n - i);
    most = some > most ? some : most;
  }
  return reduce_max(most);
}

template <typename Vec>
INLINE bool are_numbers(const float *x, int64_t n) {
  Vec unknown = {};
  for (int64_t i = 0; i < n; i += width<Vec>())
    unknown = mark_unknown(load_first<Vec>(x + i, n - i), unknown);
  return !any_is_marked(unknown);
}

// The sum of exp(x - largest).
template <typename Vec>
INLINE float sum_of_powers(const float *x, int64_t n, float largest) {
  Vec powers[vectors_of_lanes<Vec>()] = {};
  for (int64_t i = 0; i < n;)
    for (Vec &part : powers) {
      if (i >= n) break;
      const Vec some = load_first<Vec>(x + i, n - i);
      const Vec power = exponential(some - largest);
      part += some > -INFINITY ? power : Vec{};
      i += width<Vec>();
    }
  return total(powers);
}

// The softmax of a state, from its chunks.
struct StateChunks {
  int64_t n;       // rounded up to a multiple of LANES
  float *largest;  // [n], the largest logit of each chunk, or NaN if one is NaN
  float *sums;     // [n], the sum of exp(logit - largest) of each chunk

  // Empties the chunks from `first` on.
  void clear(int64_t first) const {
    std::fill(largest + first, largest + n, -INFINITY);
    std::fill(sums + first, sums + n, 0.0f);
  }
};

// Takes the logits [count] of a chunk, and the largest of them.
template <typename Vec>
INLINE void take_chunk(const StateChunks &chunks, int64_t chunk, const float *logits, int64_t count,
                       float largest) {
  const bool is_known = are_numbers<Vec>(logits, count);
  chunks.largest[chunk] = is_known ? largest : NAN;
  chunks.sums[chunk] =
      is_known && largest > -INFINITY ? sum_of_powers<Vec>(logits, count, largest) : 0;
}

template <typename Vec>
INLINE Normalizer normalizer_of(const StateChunks &chunks) {
  Vec most = Vec{} - INFINITY;
  Vec unknown = {};
  for (int64_t i = 0; i < chunks.n; i += width<Vec>()) {
    const Vec some = load<Vec>(chunks.largest + i);
    most = some > most ? some : most;
    unknown = mark_unknown(some, unknown);
  }
  const float largest = reduce_max(most);
  if (any_is_marked(unknown) || largest == -INFINITY) return {NAN, 0};
  Vec sums[vectors_of_lanes<Vec>()] = {};
  for (int64_t i = 0; i < chunks.n;)
    for (Vec &part : sums) {
      part += load<Vec>(chunks.sums + i) * exponential(load<Vec>(chunks.largest + i) - largest);
      i += width<Vec>();
    }
  return {largest, std::log(total(sums))};
}

// The output of a type, or -1.
INLINE int64_t output_of(const Choice &task, int64_t type) {
  if (!task.types) return is_within(type, task.outputs) ? type : -1;
  const int64_t *end = task.types + task.outputs;
  const int64_t *place = std::lower_bound(task.types, end, type);
  return place < end && *place == type ? place - task.types : -1;
}

// Applies the rules of a state: calls change(output, penalty) for outputs whose logits are reduced,
// those of forbidden tokens by infinity. For a token that has no output, it is -1.
template <typename Change>
INLINE void apply_rules(const Choice &task, int64_t state, Change change) {
  for (int64_t i = 0; i < task.n_never; ++i) change(task.never[i], INFINITY);
  if (task.penalized >= 0) change(task.penalized, task.penalty);
  if (task.no_end && task.no_end[state]) change(task.eos, INFINITY);
  for (int64_t i = 0; i < task.n_forbidden; ++i)
    change(output_of(task, task.forbidden[state * task.n_forbidden + i]), INFINITY);
}

INLINE bool has_to_end(const Choice &task, int64_t state) {
  return task.only_end && task.only_end[state];
}

// A finite score, even for NaN, for a sentence that has to end.
INLINE float score_of_end(float score) { return score > -FLT_MAX ? score : -FLT_MAX; }

// Writes the results of a state: the candidates, best first, or EOS if the sentence has to end.
//   end_score: of EOS
INLINE void write(const Choice &task, int64_t state, BestCandidates &best, float end_score) {
  best.finish();
  if (has_to_end(task, state)) {
    best.kept[0] = {score_of_end(end_score), int32_t(task.eos)};
    best.n_kept = 1;
  }
  int64_t *const tokens = task.tokens + state * task.n_best;
  best.write(task.scores + state * task.n_best, tokens);
  for (int64_t i = 0; task.types && i < task.n_best; ++i) tokens[i] = task.types[tokens[i]];
}

// Writes the score of an asked token of a state, after its results.
//   number: of the asked token
//   output: of the asked token, or -1
INLINE void write_asked(const Choice &task, int64_t state, int64_t number, int64_t output,
                        float score) {
  float &asked = task.asked_scores[state * task.n_asked + number];
  if (has_to_end(task, state))
    asked = output == task.eos ? task.scores[state * task.n_best] : -INFINITY;
  else
    asked = output >= 0 && score > -INFINITY ? score : -INFINITY;
}

}  // namespace
}  // namespace fastdec
