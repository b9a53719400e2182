// The best tokens of each row of scores, or of all rows of a beam.

#pragma once

#include <algorithm>
#include <cmath>

#include "products.h"

namespace {

// A token that may continue one of the rows that compete with each other.
struct Candidate {
  float total, score;  // of the row with the token, and of the token alone, before it is normalised
  int32_t number;      // which of the rows it is
  int32_t token;
};

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
  int64_t n_beams;        // rows of a beam compete with each other
  const int64_t *rows;    // [n_rows], beam by beam; 0: each row is a beam
  const int64_t *starts;  // [n_beams + 1], where the rows of each beam begin
  const float *totals;    // [n_rows], the scores of the rows so far; 0: nothing
  int64_t n_parts;        // into which a beam's rows are divided, for threads to share them
  Candidate *scratch;     // see size_of_scratch
  float *best;            // [n_beams, n_best], best first; -infinity: none
  int64_t *tokens;        // [n_beams, n_best]
  int64_t *origins;       // [n_beams, n_best], their rows; 0: nobody asks
};

constexpr Candidate NO_CANDIDATE = {-INFINITY, -INFINITY, 0, 0};

// No two candidates are equal: what is best depends on no order of work.
INLINE bool is_better(const Candidate &a, const Candidate &b) {
  if (a.total != b.total) return a.total > b.total;
  if (a.number != b.number) return a.number < b.number;
  if (a.score != b.score) return a.score > b.score;  // sums may have been rounded to the same
  return a.token < b.token;
}

// As a type, so that it is compiled into the standard library's loops.
struct Better {
  bool operator()(const Candidate &a, const Candidate &b) const { return is_better(a, b); }
};

// So few are kept in order, which is fastest for few and takes time that grows with their square.
constexpr int64_t FEW_BEST = 32;

// The n best candidates so far. Many of them are kept in no order: they are looked through when as
// many again have come, so each costs the same however many there are.
struct Best {
  Candidate *kept;  // [capacity]
  int64_t n, n_kept = 0;
  float least = -INFINITY;  // the worst total of n candidates: what is below is none of them

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
    if (n_kept == capacity(n)) forget();
  }

  void forget() {
    if (n_kept <= n) return;
    std::nth_element(kept, kept + n - 1, kept + n_kept, Better());
    n_kept = n;
    least = kept[n - 1].total;
  }

  // Leaves exactly n, in no order.
  void complete() {
    forget();
    std::fill(kept + n_kept, kept + n, NO_CANDIDATE);
    n_kept = n;
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

// The rows of a beam in their order.
INLINE int64_t n_rows_of(const Choice &choice, int64_t beam) {
  return choice.rows ? choice.starts[beam + 1] - choice.starts[beam] : 1;
}

INLINE int64_t row_of(const Choice &choice, int64_t beam, int64_t number) {
  return choice.rows ? choice.rows[choice.starts[beam] + number] : beam;
}

// What makes totals of a row's scores. Greater scores never make smaller totals.
struct Sum {
  Normalizer norm;
  float before;

  float operator()(float score) const { return score - norm.most - norm.log_sum + before; }
};

template <typename Lanes>
INLINE void find(const Choice &choice, int64_t row, int64_t number, const Sum &sum, Best &best) {
  constexpr int SIZE = CHUNK * width<Lanes>();
  const float *x = choice.scores + row * choice.n_types;
  for (int64_t at = 0; at < choice.n_types; at += SIZE) {
    const Chunk<Lanes> chunk = chunk_at<Lanes>(x + at, choice.n_types - at);
    Lanes most = Lanes{} - INFINITY;
    for (const Lanes &part : chunk.parts) most = part > most ? part : most;
    const float highest = greatest(most);
    if (!(highest > -INFINITY && sum(highest) >= best.least)) continue;
    const int64_t end = std::min<int64_t>(at + SIZE, choice.n_types);
    for (int64_t token = at; token < end; ++token) {
      const float total = sum(x[token]);
      if (total > -INFINITY && total >= best.least && token != choice.penalized &&
          is_possible(choice, row, token))
        best.add({total, x[token], int32_t(number), int32_t(token)});
    }
  }
}

template <typename Lanes>
INLINE void find_in_row(const Choice &choice, int64_t beam, int64_t number, Best &best) {
  const int64_t row = row_of(choice, beam, number), only = choice.only ? choice.only[row] : -1;
  const float *x = choice.scores + row * choice.n_types;
  Sum sum = {Normalizer(), choice.totals ? choice.totals[row] : 0};
  if (choice.normalize) sum.norm = normalizer<Lanes>(x, choice.n_types);
  if (std::isnan(sum.norm.most)) return;
  const int64_t first = only < 0 ? choice.penalized : only;
  if (first >= 0 && first < choice.n_types && is_possible(choice, row, first)) {
    const float score = x[first] - (first == choice.penalized ? choice.penalty : 0);
    const float total = sum(score);
    if (total > -INFINITY) best.add({total, score, int32_t(number), int32_t(first)});
  }
  if (only < 0) find<Lanes>(choice, row, number, sum, best);
}

// The result of a beam, from its best candidates in no order.
INLINE void put_down(const Choice &choice, int64_t beam, Candidate *best) {
  const int64_t n = choice.n_best, at = beam * n;
  std::sort(best, best + n, Better());
  for (int64_t i = 0; i < n; ++i) {
    choice.best[at + i] = best[i].total;
    choice.tokens[at + i] = best[i].token;
    // A beam without rows has no first one.
    const bool is_there = best[i].total > -INFINITY;
    if (choice.origins) choice.origins[at + i] = is_there ? row_of(choice, beam, best[i].number) : 0;
  }
}

// Where a thread keeps candidates: its own place, or where a part's have to stay.
INLINE Candidate *place_of(const Choice &choice, int64_t task, const Share &share) {
  return choice.scratch + (choice.n_parts == 1 ? share.number : task) * Best::capacity(choice.n_best);
}

int64_t size_of_scratch(const Choice &choice) {
  const int64_t n_tasks = choice.n_beams * choice.n_parts;
  return (choice.n_parts == 1 ? choice.n_threads : n_tasks) * Best::capacity(choice.n_best) *
         sizeof(Candidate);
}

template <typename Lanes>
INLINE void best_of_parts(const Choice &choice, const Share &share) {
  const int64_t n_parts = choice.n_parts;
  for (int64_t task = share.number; task < choice.n_beams * n_parts; task += share.count) {
    const int64_t beam = task / n_parts, n_rows = n_rows_of(choice, beam);
    Best best = {place_of(choice, task, share), choice.n_best};
    for (int64_t number = task % n_parts; number < n_rows; number += n_parts)
      find_in_row<Lanes>(choice, beam, number, best);
    best.complete();
    if (n_parts == 1) put_down(choice, beam, best.kept);
  }
}

// What the parts of each beam have found becomes its result.
void join_parts(const Choice &choice, const Share &share) {
  const int64_t n = choice.n_best, capacity = Best::capacity(n);
  for (int64_t beam = share.number; beam < choice.n_beams; beam += share.count) {
    Candidate *parts = choice.scratch + beam * choice.n_parts * capacity;
    Candidate *end = parts + n;
    for (int64_t part = 1; part < choice.n_parts; ++part, end += n)
      std::memmove(end, parts + part * capacity, n * sizeof(Candidate));
    std::nth_element(parts, parts + n - 1, end, Better());
    put_down(choice, beam, parts);
  }
}

}  // namespace
