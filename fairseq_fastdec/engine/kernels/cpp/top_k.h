// The best next tokens of each row of scores, or of all rows of a beam.

#pragma once

#include <algorithm>
#include <cmath>

#include "simd.h"
#include "threads.h"

namespace {

// A token that may continue one of the rows that compete with each other.
struct Candidate {
  float total;     // the row's score with the token
  float score;     // the token's own, before it is normalised
  int32_t number;  // of the row within its beam
  int32_t token;
};

constexpr Candidate NO_CANDIDATE = {-INFINITY, -INFINITY, 0, 0};

// No two candidates are equal, so the best do not depend on the order of work.
INLINE bool is_better(const Candidate &a, const Candidate &b) {
  if (a.total != b.total) return a.total > b.total;
  if (a.number != b.number) return a.number < b.number;
  if (a.score != b.score) return a.score > b.score;  // totals may have been rounded to the same
  return a.token < b.token;
}

// This is a type, so that the comparison is compiled into the standard library's loops.
struct Better {
  bool operator()(const Candidate &a, const Candidate &b) const { return is_better(a, b); }
};

// So few candidates are kept in order: that is fastest, but its time grows with their square.
constexpr int64_t FEW_BEST = 32;

// The n best candidates so far. Many are kept in no order and sifted when as many again have come,
// so each costs the same time however many there are.
struct BestCandidates {
  Candidate *kept;  // [capacity(n)]
  int64_t n, n_kept = 0;
  float least = -INFINITY;  // once n are kept, the worst total of the n best

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
    else if (!is_better(candidate, kept[--place]))
      return;
    for (; place && is_better(candidate, kept[place - 1]); --place) kept[place] = kept[place - 1];
    kept[place] = candidate;
    if (n_kept == n) least = kept[n - 1].total;
  }

  void append(const Candidate &candidate) {
    kept[n_kept++] = candidate;
    if (n_kept == capacity(n)) sift();
  }

  void sift() {
    if (n_kept <= n) return;
    std::nth_element(kept, kept + n - 1, kept + n_kept, Better());
    n_kept = n;
    least = kept[n - 1].total;
  }

  // Leaves exactly n, in no order.
  void complete() {
    sift();
    std::fill(kept + n_kept, kept + n, NO_CANDIDATE);
    n_kept = n;
  }
};

// So many vectors are looked through together.
constexpr int CHUNK = 4;

template <typename Vec>
struct Chunk {
  Vec parts[CHUNK];
};

// The chunk at x, of which `left` numbers are the row's; the others become -infinity.
template <typename Vec>
INLINE Chunk<Vec> chunk_at(const float *x, int64_t left) {
  constexpr int SIZE = CHUNK * width<Vec>();
  float filled[SIZE];
  if (left < SIZE) {
    for (int64_t i = 0; i < SIZE; ++i) filled[i] = i < left ? x[i] : -INFINITY;
    x = filled;
  }
  Chunk<Vec> chunk;
  for (int part = 0; part < CHUNK; ++part) chunk.parts[part] = load<Vec>(x + part * width<Vec>());
  return chunk;
}

// A row's logits become log-probabilities: x - largest - log_sum. The largest is NaN for rows of
// which no token has a probability.
struct Normalizer {
  float largest = 0, log_sum = 0;
};

template <typename Vec>
INLINE Normalizer normalizer_of(const float *x, int64_t n) {
  constexpr int SIZE = CHUNK * width<Vec>();
  Vec most = Vec{} - INFINITY;
  typename IntegersOf<Vec>::Vec unknown = {};
  for (int64_t at = 0; at < n; at += SIZE) {
    const Chunk<Vec> chunk = chunk_at<Vec>(x + at, n - at);
    for (const Vec &part : chunk.parts) {
      most = part > most ? part : most;
      unknown |= ~(part < INFINITY);
    }
  }
  const float largest = reduce_max(most);
  if (any_is_set(unknown) || largest == -INFINITY) return {NAN, 0};
  float sum = 0;
  // Each chunk is summed up by itself, so that long vocabularies are not summed up in few numbers.
  for (int64_t at = 0; at < n; at += SIZE) {
    const Chunk<Vec> chunk = chunk_at<Vec>(x + at, n - at);
    Vec powers = {};
    for (const Vec &part : chunk.parts) powers += exponential(part - largest);
    sum += reduce_add(powers);
  }
  return {largest, std::log(sum)};
}

INLINE bool is_possible(const TopK &task, int64_t row, int64_t token) {
  if (token == task.eos && task.no_end && task.no_end[row]) return false;
  for (int64_t i = 0; i < task.n_never; ++i)
    if (token == task.never[i]) return false;
  return true;
}

INLINE int64_t n_rows_of(const TopK &task, int64_t beam) {
  return task.rows ? task.starts[beam + 1] - task.starts[beam] : 1;
}

INLINE int64_t row_of(const TopK &task, int64_t beam, int64_t number) {
  return task.rows ? task.rows[task.starts[beam] + number] : beam;
}

// From a row's scores to totals. A greater score never has a smaller total.
struct ToTotal {
  Normalizer normalizer;
  float before;

  float operator()(float score) const {
    return score - normalizer.largest - normalizer.log_sum + before;
  }
};

template <typename Vec>
INLINE void scan_scores(const TopK &task, int64_t row, int64_t number, const ToTotal &to_total,
                        BestCandidates &best) {
  constexpr int SIZE = CHUNK * width<Vec>();
  const float *x = task.scores + row * task.n_types;
  for (int64_t at = 0; at < task.n_types; at += SIZE) {
    const Chunk<Vec> chunk = chunk_at<Vec>(x + at, task.n_types - at);
    Vec most = Vec{} - INFINITY;
    for (const Vec &part : chunk.parts) most = part > most ? part : most;
    const float largest = reduce_max(most);
    if (!(largest > -INFINITY && to_total(largest) >= best.least)) continue;
    const int64_t end = std::min<int64_t>(at + SIZE, task.n_types);
    for (int64_t token = at; token < end; ++token) {
      const float total = to_total(x[token]);
      if (total > -INFINITY && total >= best.least && token != task.penalized &&
          is_possible(task, row, token))
        best.add({total, x[token], int32_t(number), int32_t(token)});
    }
  }
}

template <typename Vec>
INLINE void scan_row(const TopK &task, int64_t beam, int64_t number, BestCandidates &best) {
  const int64_t row = row_of(task, beam, number), only = task.only ? task.only[row] : -1;
  const float *x = task.scores + row * task.n_types;
  ToTotal to_total = {Normalizer(), task.totals ? task.totals[row] : 0};
  if (task.normalize) to_total.normalizer = normalizer_of<Vec>(x, task.n_types);
  if (std::isnan(to_total.normalizer.largest)) return;
  const int64_t first = only < 0 ? task.penalized : only;
  if (first >= 0 && first < task.n_types && is_possible(task, row, first)) {
    const float score = x[first] - (first == task.penalized ? task.penalty : 0);
    const float total = to_total(score);
    if (total > -INFINITY) best.add({total, score, int32_t(number), int32_t(first)});
  }
  if (only < 0) scan_scores<Vec>(task, row, number, to_total, best);
}

// Writes a beam's result, of candidates [n_best] in no order.
INLINE void write_result(const TopK &task, int64_t beam, Candidate *best) {
  const int64_t n = task.n_best, at = beam * n;
  std::sort(best, best + n, Better());
  for (int64_t i = 0; i < n; ++i) {
    task.best[at + i] = best[i].total;
    task.tokens[at + i] = best[i].token;
    // A beam without rows has no first one.
    const bool is_there = best[i].total > -INFINITY;
    if (task.origins) task.origins[at + i] = is_there ? row_of(task, beam, best[i].number) : 0;
  }
}

// The memory for the candidates of one part: the thread's own, unless they are merged later.
INLINE Candidate *scratch_for(const TopK &task, int64_t part, const ThreadSlice &slice) {
  return task.scratch +
         (task.n_parts == 1 ? slice.number : part) * BestCandidates::capacity(task.n_best);
}

int64_t top_k_scratch_size(const TopK &task) {
  const int64_t n_parts = task.n_beams * task.n_parts;
  return (task.n_parts == 1 ? task.n_threads : n_parts) * BestCandidates::capacity(task.n_best) *
         sizeof(Candidate);
}

template <typename Vec>
INLINE void top_k_of_parts(const TopK &task, const ThreadSlice &slice) {
  const int64_t n_parts = task.n_parts;
  for (int64_t part = slice.number; part < task.n_beams * n_parts; part += slice.count) {
    const int64_t beam = part / n_parts, n_rows = n_rows_of(task, beam);
    BestCandidates best = {scratch_for(task, part, slice), task.n_best};
    for (int64_t number = part % n_parts; number < n_rows; number += n_parts)
      scan_row<Vec>(task, beam, number, best);
    best.complete();
    if (n_parts == 1) write_result(task, beam, best.kept);
  }
}

// The best candidates of a beam's parts become the beam's result.
void merge_parts(const TopK &task, const ThreadSlice &slice) {
  const int64_t n = task.n_best, capacity = BestCandidates::capacity(n);
  for (int64_t beam = slice.number; beam < task.n_beams; beam += slice.count) {
    Candidate *parts = task.scratch + beam * task.n_parts * capacity;
    Candidate *end = parts + n;
    for (int64_t part = 1; part < task.n_parts; ++part, end += n)
      std::memmove(end, parts + part * capacity, n * sizeof(Candidate));
    std::nth_element(parts, parts + n - 1, end, Better());
    write_result(task, beam, parts);
  }
}

}  // namespace
