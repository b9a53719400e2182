// Ranks the tokens of each state by the mean of several models' probabilities, and by those of a
// language model.

#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

#include "choice.h"
#include "linear.h"

namespace fastdec {
namespace {

// The number of outputs that are skipped or scanned together.
constexpr int64_t CHUNK_LOGITS = 128;

INLINE int64_t chunks_of(const TopK &task) {
  return (task.outputs + CHUNK_LOGITS - 1) / CHUNK_LOGITS;
}

INLINE int64_t size_of_chunk(const TopK &task, int64_t chunk) {
  return std::min(CHUNK_LOGITS, task.outputs - chunk * CHUNK_LOGITS);
}

// One thread scans fewer scores than this.
constexpr int64_t FEW_SCORES = 100'000;

// The scratch memory of a thread.
struct RankMemory {
  Candidate *kept;          // [capacity(n_best)]
  float *totals;            // [n_of_beam]
  Normalizer *normalizers;  // [n_members]
  StateChunks chunks;       // of a member
  float *possible;          // [chunks.n], the largest logit of each chunk after the rules
  float *bounds;            // [chunks.n]; no score in a chunk is greater
};

// Lays out the memory from `from` on; returns its end.
INLINE float *lay_out(const TopK &task, float *from, RankMemory *memory) {
  const auto take = [&](int64_t size) {
    float *const start = from;
    from += size;
    return start;
  };
  const int64_t n_chunks = padded(chunks_of(task));
  memory->kept = reinterpret_cast<Candidate *>(take(2 * BestCandidates::capacity(task.n_best)));
  memory->totals = take(task.n_of_beam);
  memory->normalizers = reinterpret_cast<Normalizer *>(take(2 * task.n_members));
  memory->chunks = {n_chunks, take(n_chunks), take(n_chunks)};
  memory->possible = take(n_chunks);
  memory->bounds = take(n_chunks);
  return from;
}

// The number of floats of scratch memory for a choice.
inline int64_t top_k_scratch_size(const TopK &task) {
  return task.n_threads * floats_laid_out<RankMemory>(task);
}

// The logits [outputs] of a member at a state.
INLINE float *logits_of(const TopK &task, int64_t member, int64_t state) {
  return task.products[member].y + state * task.outputs;
}

// The logarithm of an output's mean probability.
//   most: the greatest log-probability of a member
INLINE float log_mean(const TopK &task, const RankMemory &own, int64_t state, int64_t output,
                      float most) {
  if (task.n_members == 1 || most == -INFINITY) return most;
  float sum = 0;
  for (int64_t member = 0; member < task.n_members; ++member) {
    const float logit = logits_of(task, member, state)[output];
    sum += std::exp(own.normalizers[member].log_prob(logit) - most);
  }
  return most + (std::log(sum) - std::log(float(task.n_members)));
}

// The score of an output, after look_at_members.
INLINE float score_of(const TopK &task, const RankMemory &own, int64_t state, int64_t output,
                      float most) {
  const float score = log_mean(task, own, state, output, most);
  return task.lm_weight ? score + logits_of(task, task.n_members, state)[output] : score;
}

// Writes the greatest log-probabilities [count] of the outputs from `first` on; there has to be room
// for whole vectors.
template <typename Vec>
INLINE void put_greatest(const TopK &task, const RankMemory &own, int64_t state, int64_t first,
                         int64_t count, float *to) {
  for (int64_t i = 0; i < count; i += width<Vec>()) {
    Vec most = Vec{} - INFINITY;
    for (int64_t member = 0; member < task.n_members; ++member) {
      const Normalizer &normalizer = own.normalizers[member];
      const float *const x = logits_of(task, member, state) + first + i;
      const Vec some = load_first<Vec>(x, count - i) - normalizer.largest - normalizer.log_sum;
      most = some > most ? some : most;
    }
    store(most, to + i);
  }
}

// Replaces the logits of the language model at a state by its weighted log-probabilities, which it
// adds to the bounds. Returns false if it gives no token a probability.
template <typename Vec>
INLINE bool look_at_language_model(const TopK &task, const RankMemory &own, int64_t state) {
  float *const logits = logits_of(task, task.n_members, state);
  const int64_t n_chunks = chunks_of(task);
  const auto largest_in = [&](int64_t chunk) {
    return largest_of<Vec>(logits + chunk * CHUNK_LOGITS, size_of_chunk(task, chunk));
  };
  for (int64_t chunk = 0; chunk < n_chunks; ++chunk)
    take_chunk<Vec>(own.chunks, chunk, logits + chunk * CHUNK_LOGITS, size_of_chunk(task, chunk),
                    largest_in(chunk));
  const Normalizer normalizer = normalizer_of<Vec>(own.chunks);
  for (int64_t i = 0; i < task.outputs; ++i)
    logits[i] = task.lm_weight * normalizer.log_prob(logits[i]);
  for (int64_t chunk = 0; chunk < n_chunks; ++chunk) own.bounds[chunk] += largest_in(chunk);
  return !std::isnan(normalizer.largest);
}

// Applies the rules to all members' logits at a state, and prepares their normalisers and bounds.
// Returns false if one of them gives no token a probability.
template <typename Vec>
INLINE bool look_at_members(const TopK &task, const RankMemory &own, int64_t state) {
  const int64_t n_chunks = chunks_of(task);
  // The mean of probabilities is at most the greatest one.
  std::fill_n(own.bounds, n_chunks, -INFINITY);
  own.chunks.clear(n_chunks);
  bool has_scores = true;
  for (int64_t member = 0; member < task.n_members; ++member) {
    float *const logits = logits_of(task, member, state);
    const auto largest_in = [&](int64_t chunk) {
      return largest_of<Vec>(logits + chunk * CHUNK_LOGITS, size_of_chunk(task, chunk));
    };
    for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
      own.possible[chunk] = largest_in(chunk);
      take_chunk<Vec>(own.chunks, chunk, logits + chunk * CHUNK_LOGITS,
                      size_of_chunk(task, chunk), own.possible[chunk]);
    }
    apply_rules(task, state, [&](int64_t output, float penalty) {
      if (output < 0) return;
      logits[output] -= penalty;
      own.possible[output / CHUNK_LOGITS] = largest_in(output / CHUNK_LOGITS);
    });
    const Normalizer normalizer = own.normalizers[member] = normalizer_of<Vec>(own.chunks);
    has_scores &= !std::isnan(normalizer.largest);
    for (int64_t chunk = 0; chunk < n_chunks; ++chunk)
      own.bounds[chunk] = std::max(own.bounds[chunk], normalizer.log_prob(own.possible[chunk]));
  }
  if (task.lm_weight) has_scores &= look_at_language_model<Vec>(task, own, state);
  return has_scores;
}

template <typename Vec>
INLINE void scan_outputs(const TopK &task, const RankMemory &own, int64_t state,
                         BestCandidates &best) {
  float most[CHUNK_LOGITS], most_with_lm[CHUNK_LOGITS];
  const float *const added =
      task.lm_weight ? logits_of(task, task.n_members, state) : nullptr;
  const float *const bounds = added ? most_with_lm : most;
  for (int64_t chunk = 0; chunk < chunks_of(task); ++chunk) {
    const float bound = own.bounds[chunk];
    if (!(bound > -INFINITY && bound >= best.least)) continue;
    const int64_t first = chunk * CHUNK_LOGITS, count = size_of_chunk(task, chunk);
    put_greatest<Vec>(task, own, state, first, count, most);
    for (int64_t i = 0; added && i < count; ++i) most_with_lm[i] = most[i] + added[first + i];
    for (int64_t i = 0; i < count; ++i) {
      if (!(bounds[i] > -INFINITY && bounds[i] >= best.least)) continue;
      const float score = score_of(task, own, state, first + i, most[i]);
      if (score >= best.least) best.add({score, int32_t(first + i)});
    }
  }
}

// Replaces the first member's logits at a state by the scores of the outputs.
template <typename Vec>
INLINE void write_log_probs(const TopK &task, const RankMemory &own, int64_t state,
                            bool has_scores, float end_score) {
  float *const to = logits_of(task, 0, state);
  if (!has_scores || has_to_end(task, state)) {
    std::fill_n(to, task.outputs, -INFINITY);
    if (has_to_end(task, state)) to[task.eos] = score_of_end(end_score);
    return;
  }
  float most[CHUNK_LOGITS];
  for (int64_t chunk = 0; chunk < chunks_of(task); ++chunk) {
    const int64_t first = chunk * CHUNK_LOGITS, count = size_of_chunk(task, chunk);
    put_greatest<Vec>(task, own, state, first, count, most);
    for (int64_t i = 0; i < count; ++i)
      to[first + i] = score_of(task, own, state, first + i, most[i]);
  }
}

// Ranks the tokens of a state, and writes the scores of the asked ones.
template <typename Vec>
INLINE void rank(const TopK &task, const RankMemory &own, int64_t state, BestCandidates &best) {
  const bool has_scores = look_at_members<Vec>(task, own, state);
  const auto score_at = [&](int64_t output) {
    if (!has_scores || output < 0) return -INFINITY;
    float most[width<Vec>()];
    put_greatest<Vec>(task, own, state, output, 1, most);
    return score_of(task, own, state, output, most[0]);
  };
  if (task.all_log_probs)
    return write_log_probs<Vec>(task, own, state, has_scores, score_at(task.eos));
  if (has_scores && !has_to_end(task, state)) scan_outputs<Vec>(task, own, state, best);
  write(task, state, best, score_at(task.eos));
  for (int64_t number = 0; number < task.n_asked; ++number) {
    const int64_t output = output_of(task, task.asked[state * task.n_asked + number]);
    write_asked(task, state, number, output, score_at(output));
  }
}

// The n best totals of a beam's states so far, and what a further state has to reach.
struct BestTotals {
  float *heap;  // [n], the least one first
  int64_t n, n_kept = 0;

  // A lower bound for the scores of a state with this total; it allows for rounding.
  float least_score(float before) const {
    if (n_kept < n) return -INFINITY;
    return heap[0] - before - 1e-6f * (std::abs(heap[0]) + std::abs(before));
  }

  // Adds the tokens of a state with this total, best first.
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

// Threads share the states.
template <typename Vec>
INLINE void top_k(const TopK &task, const ThreadSlice &slice) {
  RankMemory own;
  lay_out(task, task.scratch + slice.number * floats_laid_out<RankMemory>(task), &own);
  BestTotals of_beam = {own.totals, task.n_of_beam};
  int64_t beam = -1;
  for (int64_t state = slice.number; state < task.n; state += slice.count) {
    BestCandidates best = {own.kept, task.n_best};
    if (task.beams) {
      if (task.beams[state] != beam) of_beam.n_kept = 0;
      beam = task.beams[state];
      best.least = of_beam.least_score(task.totals[state]);
    }
    rank<Vec>(task, own, state, best);
    if (task.beams) of_beam.add(best, task.totals[state]);
  }
}

}  // namespace
}  // namespace fastdec
