// Ranks the tokens of each row by the mean of several models' probabilities.

#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>

#include "best_tokens.h"
#include "simd.h"
#include "threads.h"

namespace fastdec {
namespace {

// The number of logits that are skipped or scanned together.
constexpr int64_t CHUNK_LOGITS = 64;

INLINE int64_t chunks_of(const TopK &task) {
  return (task.n_types + CHUNK_LOGITS - 1) / CHUNK_LOGITS;
}

// Also writes the largest logit of each chunk, so that chunks with small logits can be skipped.
template <typename Vec>
INLINE Normalizer normalizer_of(const float *x, int64_t n, float *chunk_maxima) {
  float largest = -INFINITY;
  bool is_known = true;
  for (int64_t at = 0; at < n; at += CHUNK_LOGITS) {
    const int64_t count = std::min(CHUNK_LOGITS, n - at);
    *chunk_maxima = largest_of<Vec>(x + at, count);
    largest = std::max(largest, *chunk_maxima++);
    is_known &= are_numbers<Vec>(x + at, count);
  }
  if (!is_known || largest == -INFINITY) return {NAN, 0};
  float sum = 0;
  // Each chunk is summed separately, which is more precise for large vocabularies.
  for (int64_t at = 0; at < n; at += CHUNK_LOGITS)
    sum += sum_of_powers<Vec>(x + at, std::min(CHUNK_LOGITS, n - at), largest);
  return {largest, std::log(sum)};
}

INLINE bool is_possible(const TopK &task, int64_t row, int64_t token) {
  if (token == task.eos && task.no_end && task.no_end[row]) return false;
  for (int64_t i = 0; i < task.n_never; ++i)
    if (token == task.never[i]) return false;
  const int64_t *forbidden = task.forbidden + row * task.n_forbidden;
  return std::find(forbidden, forbidden + task.n_forbidden, token) ==
         forbidden + task.n_forbidden;
}

// A row of logits of one member, and its normaliser.
struct RowOfMember {
  const float *x;  // [n_types]
  Normalizer normalizer;
};

// The scratch memory of a thread.
struct OwnScratch {
  Candidate *kept;       // [capacity(n_best)]
  float *totals;         // [n_of_beam]
  RowOfMember *members;  // [n_members]
  float *chunk_maxima;   // [n_chunks], of a member
  float *bounds;         // [n_chunks], no score in a chunk is greater
};

// The logarithm of a token's mean probability, without penalty. For a token that cannot reach
// `least`, only an upper bound is computed.
INLINE float score_of(const TopK &task, const RowOfMember *members, int64_t token, float least) {
  const int64_t n_members = task.n_members;
  const auto log_prob = [&](int64_t member) {
    return members[member].normalizer.log_prob(members[member].x[token]);
  };
  float most = -INFINITY;
  for (int64_t member = 0; member < n_members; ++member) most = std::max(most, log_prob(member));
  if (n_members == 1 || !(most > -INFINITY && most >= least)) return most;
  float sum = 0;
  for (int64_t member = 0; member < n_members; ++member) sum += std::exp(log_prob(member) - most);
  return most + (std::log(sum) - std::log(float(n_members)));
}

INLINE void scan_types(const TopK &task, int64_t row, const OwnScratch &own,
                       BestCandidates &best) {
  for (int64_t at = 0; at < task.n_types; at += CHUNK_LOGITS) {
    const float bound = own.bounds[at / CHUNK_LOGITS];
    if (!(bound > -INFINITY && bound >= best.least)) continue;
    const int64_t end = std::min(at + CHUNK_LOGITS, task.n_types);
    for (int64_t token = at; token < end; ++token) {
      const float score = score_of(task, own.members, token, best.least);
      if (score > -INFINITY && score >= best.least && token != task.penalized &&
          is_possible(task, row, token))
        best.add({score, int32_t(token)});
    }
  }
}

// Prepares a row's logits of all members; false if one of them gives no token a probability.
template <typename Vec>
INLINE bool look_at_members(const TopK &task, int64_t row, const OwnScratch &own) {
  const int64_t n_chunks = chunks_of(task);
  // The mean of probabilities is at most the greatest one.
  std::fill_n(own.bounds, n_chunks, -INFINITY);
  for (int64_t member = 0; member < task.n_members; ++member) {
    RowOfMember &found = own.members[member];
    found.x = task.logits[member] + row * task.n_types;
    found.normalizer = normalizer_of<Vec>(found.x, task.n_types, own.chunk_maxima);
    if (std::isnan(found.normalizer.largest)) return false;
    for (int64_t chunk = 0; chunk < n_chunks; ++chunk)
      own.bounds[chunk] =
          std::max(own.bounds[chunk], found.normalizer.log_prob(own.chunk_maxima[chunk]));
  }
  return true;
}

template <typename Vec>
INLINE void rank_row(const TopK &task, int64_t row, const OwnScratch &own, BestCandidates &best) {
  const bool has_scores = look_at_members<Vec>(task, row, own);
  if (task.only_end && task.only_end[row]) {
    const bool is_scored = has_scores && is_possible(task, row, task.eos);
    const float score = is_scored ? score_of(task, own.members, task.eos, -INFINITY) : -INFINITY;
    return best.add({score_of_end(score), int32_t(task.eos)});
  }
  if (!has_scores) return;
  const int64_t only = task.only ? task.only[row] : -1;
  const int64_t first = only < 0 ? task.penalized : only;
  if (first >= 0 && first < task.n_types && is_possible(task, row, first)) {
    const float penalty = first == task.penalized ? task.penalty : 0;
    const float score = score_of(task, own.members, first, -INFINITY) - penalty;
    if (score > -INFINITY) best.add({score, int32_t(first)});
  }
  if (only < 0) scan_types(task, row, own, best);
}

// The scratch memory of each thread, in bytes; a multiple of all alignments used here.
INLINE int64_t bytes_of_thread(const TopK &task) {
  static_assert(alignof(RowOfMember) <= sizeof(Candidate), "members follow candidates");
  const int64_t kept = BestCandidates::capacity(task.n_best) * sizeof(Candidate);
  const int64_t floats = (2 * chunks_of(task) + task.n_of_beam) * sizeof(float);
  return (kept + task.n_members * sizeof(RowOfMember) + floats + 15) / 16 * 16;
}

int64_t top_k_scratch_size(const TopK &task) { return task.n_threads * bytes_of_thread(task); }

INLINE OwnScratch own_scratch(const TopK &task, char *at) {
  OwnScratch own;
  own.kept = reinterpret_cast<Candidate *>(at);
  own.members =
      reinterpret_cast<RowOfMember *>(own.kept + BestCandidates::capacity(task.n_best));
  own.chunk_maxima = reinterpret_cast<float *>(own.members + task.n_members);
  own.bounds = own.chunk_maxima + chunks_of(task);
  own.totals = own.bounds + chunks_of(task);
  return own;
}

// The n best totals of a beam's rows so far, and what a further row has to reach.
struct BestTotals {
  float *heap;  // [n], the least one first
  int64_t n, n_kept = 0;

  // A lower bound for the scores of a row with this total; it allows for rounding.
  float least_score(float before) const {
    if (n_kept < n) return -INFINITY;
    return heap[0] - before - 1e-6f * (std::abs(heap[0]) + std::abs(before));
  }

  // Adds the tokens of a row with this total, best first.
  void add(const BestCandidates &best, float before) {
    const std::greater<float> greater;
    for (int64_t i = 0; i < best.n_kept; ++i) {
      const float total = best.kept[i].score + before;
      if (n_kept == n) {
        if (!(total > heap[0])) return;
        std::pop_heap(heap, heap + n_kept--, greater);
      }
      heap[n_kept++] = total;
      std::push_heap(heap, heap + n_kept, greater);
    }
  }
};

// Threads share the rows.
template <typename Vec>
INLINE void top_k(const TopK &task, const ThreadSlice &slice) {
  char *const scratch = static_cast<char *>(task.scratch);
  const OwnScratch own = own_scratch(task, scratch + slice.number * bytes_of_thread(task));
  BestTotals of_beam = {own.totals, task.n_of_beam};
  int64_t beam = -1;
  for (int64_t row = slice.number; row < task.n_rows; row += slice.count) {
    BestCandidates best = {own.kept, task.n_best};
    if (task.beams) {
      if (task.beams[row] != beam) of_beam.n_kept = 0;
      beam = task.beams[row];
      best.least = of_beam.least_score(task.totals[row]);
    }
    rank_row<Vec>(task, row, own, best);
    best.finish();
    if (task.beams) of_beam.add(best, task.totals[row]);
    best.write(task.scores + row * task.n_best, task.tokens + row * task.n_best);
  }
}

}  // namespace
}  // namespace fastdec
