// Chooses the best next tokens of each row of scores, or of all rows of a beam.

#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "simd.h"
#include "threads.h"

namespace fastdec {
namespace {

// A token that may continue one of the rows of a beam.
struct Candidate {
  float total;     // the row's score with the token
  float score;     // the token's score before normalisation
  int32_t number;  // the row's index in its beam
  int32_t token;
};

constexpr Candidate NO_CANDIDATE = {-INFINITY, -INFINITY, 0, 0};

// A strict order, so that the result does not depend on the order of work.
INLINE bool is_better(const Candidate &a, const Candidate &b) {
  if (a.total != b.total) return a.total > b.total;
  if (a.number != b.number) return a.number < b.number;
  if (a.score != b.score) return a.score > b.score;  // totals may be equal after rounding
  return a.token < b.token;
}

// A function object, so that the comparison is inlined into the standard library's loops.
struct Better {
  bool operator()(const Candidate &a, const Candidate &b) const { return is_better(a, b); }
};

// Up to this number, candidates are kept sorted: that is fastest, but takes quadratic time.
constexpr int64_t FEW_BEST = 32;

// The n best candidates so far. If n is large, up to 2 n are kept unsorted and then reduced to n,
// so that the time per candidate does not depend on n.
struct BestCandidates {
  Candidate *kept;  // [capacity(n)]
  int64_t n, n_kept = 0;
  float least = -INFINITY;  // the worst total of the n best, once there are n

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

  // Keeps exactly n, unsorted; missing ones are NO_CANDIDATE.
  void complete() {
    sift();
    std::fill(kept + n_kept, kept + n, NO_CANDIDATE);
    n_kept = n;
  }
};

// The number of vectors that are scanned together.
constexpr int CHUNK = 4;

template <typename Vec>
struct Chunk {
  Vec parts[CHUNK];
};

// The chunk at x; numbers after the first `left` ones are replaced by -infinity.
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

// Converts a row's logits to log-probabilities: x - largest - log_sum. `largest` is NaN for rows in
// which no token has a probability.
struct Normalizer {
  float largest = 0, log_sum = 0;
};

// The number of chunks with the narrowest vectors, which is the maximum.
INLINE int64_t most_chunks(int64_t n) {
  constexpr int SIZE = CHUNK * width<Vec4>();
  return (n + SIZE - 1) / SIZE;
}

// Also writes the largest score of each chunk, so that chunks with small scores can be skipped.
template <typename Vec>
INLINE Normalizer normalizer_of(const float *x, int64_t n, float *chunk_maxima) {
  constexpr int SIZE = CHUNK * width<Vec>();
  float largest = -INFINITY;
  typename IntegersOf<Vec>::Vec unknown = {};
  for (int64_t at = 0; at < n; at += SIZE) {
    const Chunk<Vec> chunk = chunk_at<Vec>(x + at, n - at);
    Vec most = Vec{} - INFINITY;
    for (const Vec &part : chunk.parts) {
      most = part > most ? part : most;
      unknown |= ~(part < INFINITY);
    }
    largest = std::max(largest, *chunk_maxima++ = reduce_max(most));
  }
  if (any_is_set(unknown) || largest == -INFINITY) return {NAN, 0};
  float sum = 0;
  // Each chunk is summed separately, which is more precise for large vocabularies.
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
  const int64_t *forbidden = task.forbidden + row * task.n_forbidden;
  return std::find(forbidden, forbidden + task.n_forbidden, token) ==
         forbidden + task.n_forbidden;
}

INLINE int64_t n_rows_of(const TopK &task, int64_t beam) {
  return task.starts ? task.starts[beam + 1] - task.starts[beam] : 1;
}

INLINE int64_t row_of(const TopK &task, int64_t beam, int64_t number) {
  return task.starts ? task.starts[beam] + number : beam;
}

INLINE const float *scores_of(const TopK &task, int64_t member, int64_t row) {
  return task.scores[member] + row * task.n_types;
}

// Converts a row's scores to totals. A greater score never has a smaller total.
struct ToTotal {
  Normalizer normalizer;
  float before;

  float operator()(float score) const {
    return score - normalizer.largest - normalizer.log_sum + before;
  }
};

// A row of scores of one member, and its maxima and normaliser.
struct RowOfMember {
  const float *x;  // [n_types]
  const float *chunk_maxima;
  Normalizer normalizer;
};

// The largest score of the chunk at `at`.
template <typename Vec>
INLINE float largest_of_chunk(const RowOfMember &row, int64_t at) {
  return row.chunk_maxima[at / (CHUNK * width<Vec>())];
}

// The scores of a row of one model.
struct OneModel {
  const RowOfMember &own;
  ToTotal to_total;
};

// An upper bound of the totals in the chunk at `at`.
template <typename Vec>
INLINE float bound_of_chunk(const OneModel &scores, int64_t at) {
  const float largest = largest_of_chunk<Vec>(scores.own, at);
  return largest > -INFINITY ? scores.to_total(largest) : -INFINITY;
}

INLINE Candidate candidate_of(const OneModel &scores, int64_t number, int64_t token, float penalty,
                              float) {
  const float score = scores.own.x[token] - penalty;
  return {scores.to_total(score), score, int32_t(number), int32_t(token)};
}

// The scores of a row of several models, whose probabilities are averaged.
struct Ensemble {
  const RowOfMember *members;  // [n_members]
  int64_t n_members;
  float before;
};

INLINE float log_prob_of(const RowOfMember &own, float score) {
  return score - own.normalizer.largest - own.normalizer.log_sum;
}

// The mean is at most the greatest log-probability of a member.
template <typename Vec>
INLINE float bound_of_chunk(const Ensemble &scores, int64_t at) {
  float most = -INFINITY;
  for (int64_t member = 0; member < scores.n_members; ++member) {
    const RowOfMember &own = scores.members[member];
    most = std::max(most, log_prob_of(own, largest_of_chunk<Vec>(own, at)));
  }
  return most + scores.before;
}

// For a token that cannot reach `least`, only an upper bound is computed.
INLINE Candidate candidate_of(const Ensemble &scores, int64_t number, int64_t token, float penalty,
                              float least) {
  const int64_t n_members = scores.n_members;
  const auto log_prob = [&](int64_t member) {
    const RowOfMember &own = scores.members[member];
    return log_prob_of(own, own.x[token]);
  };
  float most = -INFINITY;
  for (int64_t member = 0; member < n_members; ++member) most = std::max(most, log_prob(member));
  float mean = most;
  if (most > -INFINITY && most + scores.before >= least) {
    float sum = 0;
    for (int64_t member = 0; member < n_members; ++member)
      sum += std::exp(log_prob(member) - most);
    mean = most + (std::log(sum) - std::log(float(n_members)));
  }
  mean -= penalty;
  return {mean + scores.before, mean, int32_t(number), int32_t(token)};
}

template <typename Vec, typename Scores>
INLINE void scan_types(const TopK &task, int64_t row, int64_t number, const Scores &scores,
                       BestCandidates &best) {
  constexpr int SIZE = CHUNK * width<Vec>();
  for (int64_t at = 0; at < task.n_types; at += SIZE) {
    const float bound = bound_of_chunk<Vec>(scores, at);
    if (!(bound > -INFINITY && bound >= best.least)) continue;
    const int64_t end = std::min<int64_t>(at + SIZE, task.n_types);
    for (int64_t token = at; token < end; ++token) {
      const Candidate candidate = candidate_of(scores, number, token, 0, best.least);
      if (candidate.total > -INFINITY && candidate.total >= best.least &&
          token != task.penalized && is_possible(task, row, token))
        best.add(candidate);
    }
  }
}

template <typename Vec, typename Scores>
INLINE void scan_scores(const TopK &task, int64_t row, int64_t number, const Scores &scores,
                        BestCandidates &best) {
  const int64_t only = task.only ? task.only[row] : -1;
  const int64_t first = only < 0 ? task.penalized : only;
  if (first >= 0 && first < task.n_types && is_possible(task, row, first)) {
    const float penalty = first == task.penalized ? task.penalty : 0;
    const Candidate candidate = candidate_of(scores, number, first, penalty, -INFINITY);
    if (candidate.total > -INFINITY) best.add(candidate);
  }
  if (only < 0) scan_types<Vec>(task, row, number, scores, best);
}

// The scratch memory of a thread.
struct OwnScratch {
  Candidate *of_row;     // [capacity(n_per_row)]
  RowOfMember *members;  // [n_members]
  float *chunk_maxima;   // [n_members, most_chunks]
};

// Prepares a row's scores of all members; false if one of them gives no token a probability.
template <typename Vec>
INLINE bool look_at_members(const TopK &task, int64_t row, const OwnScratch &own) {
  for (int64_t member = 0; member < task.n_members; ++member) {
    RowOfMember &found = own.members[member];
    float *maxima = own.chunk_maxima + member * most_chunks(task.n_types);
    found.x = scores_of(task, member, row), found.chunk_maxima = maxima;
    found.normalizer = normalizer_of<Vec>(found.x, task.n_types, maxima);
    if (std::isnan(found.normalizer.largest)) return false;
  }
  return true;
}

// Adds EOS, the only possible token of a row that has to end, whatever its probability.
INLINE void end_row(const TopK &task, int64_t number, Candidate candidate, BestCandidates &best) {
  // A comparison with NaN is false.
  if (!(candidate.total >= -FLT_MAX)) candidate.total = candidate.score = -FLT_MAX;
  candidate.number = int32_t(number), candidate.token = int32_t(task.eos);
  best.add(candidate);
}

template <typename Vec, typename Scores>
INLINE void scan_scores_or_end(const TopK &task, int64_t row, int64_t number, const Scores &scores,
                               BestCandidates &best) {
  if (!(task.has_to_end && task.has_to_end[row])) {
    scan_scores<Vec>(task, row, number, scores, best);
    return;
  }
  Candidate end = NO_CANDIDATE;
  if (is_possible(task, row, task.eos))
    end = candidate_of(scores, number, task.eos, 0, -INFINITY);
  end_row(task, number, end, best);
}

template <typename Vec>
INLINE void scan_row(const TopK &task, int64_t beam, int64_t number, const OwnScratch &own,
                     BestCandidates &best) {
  const int64_t row = row_of(task, beam, number);
  const float before = task.totals ? task.totals[row] : 0;
  if (!look_at_members<Vec>(task, row, own)) {
    if (task.has_to_end && task.has_to_end[row]) end_row(task, number, NO_CANDIDATE, best);
  } else if (task.n_members == 1) {
    const OneModel scores = {own.members[0], {own.members[0].normalizer, before}};
    scan_scores_or_end<Vec>(task, row, number, scores, best);
  } else {
    const Ensemble scores = {own.members, task.n_members, before};
    scan_scores_or_end<Vec>(task, row, number, scores, best);
  }
}

// If the number of candidates per row is limited, first find the best ones of the row.
template <typename Vec>
INLINE void add_row(const TopK &task, int64_t beam, int64_t number, const OwnScratch &own,
                    BestCandidates &best) {
  if (task.n_per_row >= task.n_best) return scan_row<Vec>(task, beam, number, own, best);
  BestCandidates of_row = {own.of_row, task.n_per_row};
  of_row.least = best.least;
  scan_row<Vec>(task, beam, number, own, of_row);
  of_row.sift();
  for (int64_t i = 0; i < of_row.n_kept; ++i) best.add(of_row.kept[i]);
}

// Writes a beam's result, from unsorted candidates [n_best].
INLINE void write_result(const TopK &task, int64_t beam, Candidate *best) {
  const int64_t n = task.n_best, at = beam * n;
  std::sort(best, best + n, Better());
  for (int64_t i = 0; i < n; ++i) {
    task.best[at + i] = best[i].total;
    task.tokens[at + i] = best[i].token;
    // A beam without candidates may have no rows.
    const bool is_there = best[i].total > -INFINITY;
    if (task.origins) task.origins[at + i] = is_there ? row_of(task, beam, best[i].number) : 0;
  }
}

// The scratch memory of one part, in candidates.
INLINE int64_t candidates_of_part(const TopK &task) {
  return BestCandidates::capacity(task.n_best);
}

// The scratch memory of each thread, in bytes; a multiple of all alignments used here.
INLINE int64_t bytes_of_thread(const TopK &task) {
  static_assert(alignof(RowOfMember) <= sizeof(Candidate), "members follow candidates");
  const bool is_limited = task.n_per_row < task.n_best;
  const int64_t of_row = is_limited ? BestCandidates::capacity(task.n_per_row) : 0;
  const int64_t of_member = sizeof(RowOfMember) + most_chunks(task.n_types) * sizeof(float);
  const int64_t size = of_row * sizeof(Candidate) + task.n_members * of_member;
  return (size + 15) / 16 * 16;
}

INLINE OwnScratch own_scratch(const TopK &task, char *at) {
  OwnScratch own;
  own.of_row = reinterpret_cast<Candidate *>(at);
  if (task.n_per_row < task.n_best)
    at += BestCandidates::capacity(task.n_per_row) * sizeof(Candidate);
  own.members = reinterpret_cast<RowOfMember *>(at);
  own.chunk_maxima = reinterpret_cast<float *>(own.members + task.n_members);
  return own;
}

// The number of parts with memory. If parts need not be merged, a thread reuses one for all beams.
INLINE int64_t n_stretches(const TopK &task) {
  return task.n_parts == 1 ? task.n_threads : task.n_beams * task.n_parts;
}

// The candidates of all parts, at the beginning of the scratch memory.
INLINE Candidate *candidates_of(const TopK &task) { return static_cast<Candidate *>(task.scratch); }

int64_t top_k_scratch_size(const TopK &task) {
  const int64_t parts = n_stretches(task) * candidates_of_part(task) * sizeof(Candidate);
  return parts + task.n_threads * bytes_of_thread(task);
}

template <typename Vec>
INLINE void top_k_of_parts(const TopK &task, const ThreadSlice &slice) {
  const int64_t n_parts = task.n_parts;
  // The threads' memory follows the parts, so that merge_parts can read these.
  char *behind =
      reinterpret_cast<char *>(candidates_of(task) + n_stretches(task) * candidates_of_part(task));
  const OwnScratch own = own_scratch(task, behind + slice.number * bytes_of_thread(task));
  for (int64_t part = slice.number; part < task.n_beams * n_parts; part += slice.count) {
    const int64_t beam = part / n_parts, n_rows = n_rows_of(task, beam);
    const int64_t stretch = n_parts == 1 ? slice.number : part;
    BestCandidates best = {candidates_of(task) + stretch * candidates_of_part(task), task.n_best};
    for (int64_t number = part % n_parts; number < n_rows; number += n_parts)
      add_row<Vec>(task, beam, number, own, best);
    best.complete();
    if (n_parts == 1) write_result(task, beam, best.kept);
  }
}

// Merges the best candidates of a beam's parts into the beam's result.
void merge_parts(const TopK &task, const ThreadSlice &slice) {
  const int64_t n = task.n_best, capacity = BestCandidates::capacity(n);
  for (int64_t beam = slice.number; beam < task.n_beams; beam += slice.count) {
    Candidate *parts = candidates_of(task) + beam * task.n_parts * capacity;
    Candidate *end = parts + n;
    for (int64_t part = 1; part < task.n_parts; ++part, end += n)
      std::memmove(end, parts + part * capacity, n * sizeof(Candidate));
    std::nth_element(parts, parts + n - 1, end, Better());
    write_result(task, beam, parts);
  }
}

}  // namespace
}  // namespace fastdec
