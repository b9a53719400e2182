// Chooses the best next tokens of each of n states: output layer, softmax, options and choice in one
// pass. Logits are only stored for one chunk of outputs at a time.

#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "assertions.h"
#include "best_candidates.h"
#include "linear.h"

namespace fastdec {
namespace {

// The number of outputs that are computed and scanned together; their logits stay in the L1 cache.
constexpr int64_t CHUNK_OUTPUTS = 8 * BLOCK;

// Converts a row's logits to log-probabilities: x - largest - log_sum. `largest` is NaN for rows in
// which no token has a probability.
struct Normalizer {
  float largest = 0, log_sum = 0;

  float log_prob(float logit) const { return logit - largest - log_sum; }
};

// How many of a state's candidates a thread keeps, and the least logit of a further one.
struct Kept {
  int32_t n;
  float least;
};

// The scratch memory of a choice.
struct ChoiceMemory {
  int64_t n_chunks;   // rounded up to a multiple of all vector widths
  float *quantized;   // [quantized_size(n, inputs)]
  float *largest;     // [n, n_chunks], the largest logit of each chunk; -infinity after the last
  float *sums;        // [n, n_chunks], the sum of exp(logit - largest) of each chunk
  float *end_logits;  // [n]
  int32_t *asked;     // [n], the outputs of task.asked, or -1
  Kept *n_kept;       // [n_threads, n]
  Candidate *kept;    // [n_threads, n, capacity(n_best)]
  float *logits;      // [n_threads, n, CHUNK_OUTPUTS]

  // The candidates of a state that a thread has found so far.
  BestCandidates best_of(const BestTokens &task, int64_t thread, int64_t state) const {
    const int64_t at = thread * task.n + state;
    return {kept + at * BestCandidates::capacity(task.n_best), task.n_best, n_kept[at].n,
            n_kept[at].least};
  }
};

INLINE int64_t chunks_of(const Linear &linear) {
  return (linear.outputs + CHUNK_OUTPUTS - 1) / CHUNK_OUTPUTS;
}

// Lays out the memory from `from` on; returns its end.
INLINE float *lay_out(const BestTokens &task, float *from, ChoiceMemory *memory) {
  constexpr int64_t MOST = width<Vec16>();
  const int64_t n = task.n, n_chunks = (chunks_of(task.linear) + MOST - 1) / MOST * MOST;
  memory->n_chunks = n_chunks;
  const auto take = [&](int64_t size) {
    float *const start = from;
    from += size;
    return start;
  };
  memory->quantized = take(quantized_size(n, task.linear.inputs));
  memory->largest = take(n * n_chunks);
  memory->sums = take(n * n_chunks);
  memory->end_logits = take(n);
  memory->asked = reinterpret_cast<int32_t *>(take(n));
  memory->n_kept = reinterpret_cast<Kept *>(take(2 * n * task.n_threads));
  const int64_t capacity = BestCandidates::capacity(task.n_best);
  memory->kept = reinterpret_cast<Candidate *>(take(2 * n * task.n_threads * capacity));
  memory->logits = take(task.n_threads * n * CHUNK_OUTPUTS);
  return from;
}

// The number of floats of scratch memory for a choice.
int64_t best_tokens_scratch_size(const BestTokens &task) {
  return floats_laid_out<ChoiceMemory>(task);
}

// The outputs of a chunk as a separate layer.
INLINE Linear chunk_of(const Linear &linear, int64_t chunk) {
  const int64_t first = chunk * CHUNK_OUTPUTS;
  Linear part = linear;
  part.outputs = std::min(CHUNK_OUTPUTS, linear.outputs - first);
  part.bias += first;
  // A group has 4 bytes.
  part.weight = static_cast<const uint32_t *>(linear.weight) + first * linear.n_groups();
  if (linear.format->has_scales) {
    part.zero_point_compensation += first;
    part.scales += first;
  }
  return part;
}

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
  Vec powers = {};
  for (int64_t i = 0; i < n; i += width<Vec>()) {
    const Vec some = load_first<Vec>(x + i, n - i);
    const Vec power = exponential(some - largest);
    powers += some > -INFINITY ? power : Vec{};
  }
  return reduce_add(powers);
}

// The output of a type, or -1.
INLINE int64_t output_of(const BestTokens &task, int64_t type) {
  const int64_t outputs = task.linear.outputs;
  if (!task.types) return is_within(type, outputs) ? type : -1;
  const int64_t *place = std::lower_bound(task.types, task.types + outputs, type);
  return place < task.types + outputs && *place == type ? place - task.types : -1;
}

// Applies the rules to the logits [count] of the outputs from `first` on: forbidden outputs and the
// penalty of unknown words. Returns whether a logit has changed.
INLINE bool apply_options(const BestTokens &task, int64_t state, int64_t first, int64_t count,
                          float *logits) {
  bool has_changed = false;
  const auto change = [&](int64_t output, float penalty) {
    if (output < first || output >= first + count) return;
    logits[output - first] -= penalty;
    has_changed = true;
  };
  for (int64_t i = 0; i < task.n_never; ++i) change(task.never[i], INFINITY);
  if (task.penalized >= 0) change(task.penalized, task.penalty);
  if (task.no_end && task.no_end[state]) change(task.eos, INFINITY);
  for (int64_t i = 0; i < task.n_forbidden; ++i)
    change(output_of(task, task.forbidden[state * task.n_forbidden + i]), INFINITY);
  return has_changed;
}

// Scans a state's logits [count] of one chunk.
template <typename Vec>
INLINE void look_through(const BestTokens &task, const ChoiceMemory &memory, int64_t thread,
                         int64_t state, int64_t chunk, int64_t count, float *logits) {
  const int64_t first = chunk * CHUNK_OUTPUTS;
  if (task.temperature != 1)
    for (int64_t i = 0; i < count; ++i) logits[i] /= task.temperature;
  float largest = largest_of<Vec>(logits, count);
  if (task.normalize) {
    const int64_t at = state * memory.n_chunks + chunk;
    const bool is_known = are_numbers<Vec>(logits, count);
    memory.largest[at] = is_known ? largest : NAN;
    memory.sums[at] =
        is_known && largest > -INFINITY ? sum_of_powers<Vec>(logits, count, largest) : 0;
  }
  if (is_within(task.eos - first, count)) memory.end_logits[state] = logits[task.eos - first];
  if (apply_options(task, state, first, count, logits)) largest = largest_of<Vec>(logits, count);
  if (task.asked && is_within(memory.asked[state] - first, count))
    task.asked_scores[state] = logits[memory.asked[state] - first];
  Kept &so_far = memory.n_kept[thread * task.n + state];
  if (!(largest > so_far.least)) return;
  BestCandidates best = memory.best_of(task, thread, state);
  add_outputs<Vec>(logits, first, count, best);
  so_far = {int32_t(best.n_kept), best.least};
}

// The normaliser of a state, from its chunks.
template <typename Vec>
INLINE Normalizer normalizer_of_chunks(const ChoiceMemory &memory, int64_t state) {
  const float *chunks = memory.largest + state * memory.n_chunks;
  const float *sums = memory.sums + state * memory.n_chunks;
  Vec most = Vec{} - INFINITY;
  Vec unknown = {};
  for (int64_t i = 0; i < memory.n_chunks; i += width<Vec>()) {
    const Vec some = load<Vec>(chunks + i);
    most = some > most ? some : most;
    unknown = mark_unknown(some, unknown);
  }
  const float largest = reduce_max(most);
  if (any_is_marked(unknown) || largest == -INFINITY) return {NAN, 0};
  Vec total = {};
  for (int64_t i = 0; i < memory.n_chunks; i += width<Vec>())
    total += load<Vec>(sums + i) * exponential(load<Vec>(chunks + i) - largest);
  return {largest, std::log(reduce_add(total))};
}

// The best candidates over all threads.
INLINE BestCandidates best_of_threads(const BestTokens &task, const ChoiceMemory &memory,
                                      int64_t state, int64_t n_threads) {
  BestCandidates best = memory.best_of(task, 0, state);
  for (int64_t thread = 1; thread < n_threads; ++thread) {
    const BestCandidates other = memory.best_of(task, thread, state);
    for (int64_t i = 0; i < other.n_kept; ++i) best.add(other.kept[i]);
  }
  best.finish();
  return best;
}

// A finite score, even for NaN, for a sentence that has to end.
INLINE float score_of_end(float score) { return score > -FLT_MAX ? score : -FLT_MAX; }

template <typename Vec>
INLINE void write_choice(const BestTokens &task, const ChoiceMemory &memory, int64_t state,
                         int64_t n_threads) {
  BestCandidates best = best_of_threads(task, memory, state, n_threads);
  Normalizer normalizer;
  if (task.normalize) normalizer = normalizer_of_chunks<Vec>(memory, state);
  const bool has_to_end = task.only_end && task.only_end[state];
  if (has_to_end) {
    const bool is_possible = !(task.no_end && task.no_end[state]);
    const float score = is_possible ? normalizer.log_prob(memory.end_logits[state]) : -INFINITY;
    best.kept[0] = {score_of_end(score), int32_t(task.eos)}, best.n_kept = 1;
  } else {
    for (int64_t i = 0; i < best.n_kept; ++i)
      best.kept[i].score = normalizer.log_prob(best.kept[i].score);
    // Without a normaliser, no token has a probability.
    if (best.n_kept && std::isnan(best.kept[0].score)) best.n_kept = 0;
  }
  float *const scores = task.scores + state * task.n_best;
  int64_t *const tokens = task.tokens + state * task.n_best;
  best.write(scores, tokens);
  for (int64_t i = 0; task.types && i < task.n_best; ++i) tokens[i] = task.types[tokens[i]];
  if (!task.asked) return;
  float &asked = task.asked_scores[state];
  const int64_t output = memory.asked[state];
  if (has_to_end && output == task.eos)
    asked = scores[0];
  else if (has_to_end || output < 0 || !(normalizer.log_prob(asked) > -INFINITY))
    asked = -INFINITY;
  else
    asked = normalizer.log_prob(asked);
}

template <typename Vec>
INLINE void best_tokens(MultiplyFp32 multiply_fp32, const BestTokens &task,
                        const ThreadSlice &slice) {
  ChoiceMemory memory;
  lay_out(task, task.scratch, &memory);
  const Linear &linear = task.linear;
  const int64_t n = task.n, n_chunks = chunks_of(linear);
  for (int64_t state = slice.number; state < n; state += slice.count) {
    if (task.asked) memory.asked[state] = output_of(task, task.asked[state]);
    if (linear.rounds_inputs())
      quantize(linear, task.x + state * linear.inputs, memory.quantized, state, n);
    for (int64_t chunk = n_chunks; chunk < memory.n_chunks; ++chunk) {
      memory.largest[state * memory.n_chunks + chunk] = -INFINITY;
      memory.sums[state * memory.n_chunks + chunk] = 0;
    }
  }
  std::fill_n(memory.n_kept + slice.number * n, n, Kept{0, -INFINITY});
  wait_at(task.barrier, slice);
  float *const logits = memory.logits + slice.number * n * CHUNK_OUTPUTS;
  const int64_t end = n_chunks * (slice.number + 1) / slice.count;
  for (int64_t chunk = n_chunks * slice.number / slice.count; chunk < end; ++chunk) {
    const Linear part = chunk_of(linear, chunk);
    if (!linear.rounds_inputs())
      multiply_fp32(part, task.x, logits, n, {0, 1}, Epilogue::STORE);
    else
      multiply_quantized(part, memory.quantized, logits, n, {0, 1}, Epilogue::STORE);
    for (int64_t state = 0; state < n; ++state)
      look_through<Vec>(task, memory, slice.number, state, chunk, part.outputs,
                        logits + state * part.outputs);
  }
  wait_at(task.barrier, slice);
  for (int64_t state = slice.number; state < n; state += slice.count)
    write_choice<Vec>(task, memory, state, slice.count);
}

}  // namespace
}  // namespace fastdec
