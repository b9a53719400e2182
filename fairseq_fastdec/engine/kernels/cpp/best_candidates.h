// Keeps the n best of many candidates.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "simd.h"

namespace fastdec {
namespace {

// An output with its score.
struct Candidate {
  float score;
  int32_t output;
};

// A strict order, so that the result does not depend on the order of work. A function object, so
// that the comparison is inlined into the standard library's loops.
struct Better {
  bool operator()(const Candidate &a, const Candidate &b) const {
    return a.score != b.score ? a.score > b.score : a.output < b.output;
  }
};

// Up to this number, candidates are kept sorted: that is fastest, but takes quadratic time.
constexpr int64_t FEW_BEST = 32;

// The n best candidates so far. If n is large, up to 2 n are kept unsorted and then reduced to n,
// so that the time per candidate does not depend on n.
struct BestCandidates {
  Candidate *kept;  // [capacity(n)]
  int64_t n, n_kept = 0;
  float least = -INFINITY;  // the worst score of the n best, once there are n

  static int64_t capacity(int64_t n) { return n <= FEW_BEST ? n : 2 * n; }

  void add(const Candidate &candidate) {
    if (n <= FEW_BEST)
      insert(candidate);
    else
      append(candidate);
  }

  void insert(const Candidate &candidate) {
    int64_t place = n_kept;
    if (n_kept < n)
      ++n_kept;
    else if (!Better()(candidate, kept[--place]))
      return;
    for (; place && Better()(candidate, kept[place - 1]); --place) kept[place] = kept[place - 1];
    kept[place] = candidate;
    if (n_kept == n) least = kept[n - 1].score;
  }

  void append(const Candidate &candidate) {
    kept[n_kept++] = candidate;
    if (n_kept == capacity(n)) sift();
  }

  void sift() {
    if (n_kept <= n) return;
    std::nth_element(kept, kept + n - 1, kept + n_kept, Better());
    n_kept = n;
    least = kept[n - 1].score;
  }

  // Keeps at most n, best first.
  void finish() {
    if (n <= FEW_BEST) return;
    sift();
    std::sort(kept, kept + n_kept, Better());
  }

  // Writes the finished candidates; scores of missing ones are -infinity, and their outputs 0.
  void write(float *scores, int64_t *outputs) const {
    for (int64_t i = 0; i < n_kept; ++i) scores[i] = kept[i].score, outputs[i] = kept[i].output;
    std::fill(scores + n_kept, scores + n, -INFINITY);
    std::fill(outputs + n_kept, outputs + n, 0);
  }
};

// The vector at x; numbers after the first `left` ones are replaced by -infinity.
template <typename Vec>
INLINE Vec load_first(const float *x, int64_t left) {
  constexpr int WIDTH = width<Vec>();
  if (left >= WIDTH) return load<Vec>(x);
  float filled[WIDTH];
  for (int i = 0; i < WIDTH; ++i) filled[i] = i < left ? x[i] : -INFINITY;
  return load<Vec>(filled);
}

// Adds the outputs from `first` on by their scores [count], which come after those of all outputs
// added before: of equal scores, the first ones are kept.
template <typename Vec>
INLINE void add_outputs(const float *scores, int64_t first, int64_t count, BestCandidates &best) {
  for (int64_t from = 0; from < count; from += width<Vec>()) {
    if (!(reduce_max(load_first<Vec>(scores + from, count - from)) > best.least)) continue;
    const int64_t end = std::min<int64_t>(from + width<Vec>(), count);
    for (int64_t i = from; i < end; ++i)
      if (scores[i] > best.least) best.add({scores[i], int32_t(first + i)});
  }
}

}  // namespace
}  // namespace fastdec
