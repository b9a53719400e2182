// Chooses the best next tokens of each of n states: output layer, softmax, rules and choice in one
// pass. Logits are only stored for one chunk of outputs at a time.

#pragma once

#include <algorithm>

#include "assertions.h"
#include "choice.h"
#include "linear.h"

namespace fastdec {
namespace {

// The number of outputs that are computed and scanned together; their logits stay in the L1 cache.
constexpr int64_t CHUNK_OUTPUTS = 8 * BLOCK;

INLINE int64_t chunks_of(const BestTokens &task) {
  return (task.outputs + CHUNK_OUTPUTS - 1) / CHUNK_OUTPUTS;
}

// How many of a state's candidates a thread keeps, and the least logit of a further one.
struct Kept {
  int32_t n;
  float least;
};

// The scratch memory of a choice.
struct ChoiceMemory {
  float *quantized;   // [quantized_size(n, inputs)]
  float *largest;     // [n, padded(chunks_of(task))], see StateChunks
  float *sums;        // [n, padded(chunks_of(task))]
  float *end_logits;  // [n]
  int32_t *asked;     // [n, n_asked], the outputs of task.asked, or -1
  Kept *n_kept;       // [n_threads, n]
  Candidate *kept;    // [n_threads, n, capacity(n_best)]
  float *logits;      // [n_threads, n, CHUNK_OUTPUTS]

  StateChunks chunks_at(const BestTokens &task, int64_t state) const {
    const int64_t n_chunks = padded(chunks_of(task)), at = state * n_chunks;
    return {n_chunks, largest + at, sums + at};
  }

  // The candidates of a state that a thread has found so far.
  BestCandidates best_of(const BestTokens &task, int64_t thread, int64_t state) const {
    const int64_t at = thread * task.n + state;
    return {kept + at * BestCandidates::capacity(task.n_best), task.n_best, n_kept[at].n,
            n_kept[at].least};
  }
};

// Lays out the memory from `from` on; returns its end.
INLINE float *lay_out(const BestTokens &task, float *from, ChoiceMemory *memory) {
  const int64_t n = task.n, n_chunks = padded(chunks_of(task));
  const auto take = [&](int64_t size) {
    float *const start = from;
    from += size;
    return start;
  };
  memory->quantized = take(quantized_size(n, task.linear.inputs));
  memory->largest = take(n * n_chunks);
  memory->sums = take(n * n_chunks);
  memory->end_logits = take(n);
  memory->asked = reinterpret_cast<int32_t *>(take(n * task.n_asked));
  memory->n_kept = reinterpret_cast<Kept *>(take(2 * n * task.n_threads));
  const int64_t capacity = BestCandidates::capacity(task.n_best);
  memory->kept = reinterpret_cast<Candidate *>(take(2 * n * task.n_threads * capacity));
  memory->logits = take(task.n_threads * n * CHUNK_OUTPUTS);
  return from;
}

// The number of floats of scratch memory for a choice.
inline int64_t best_tokens_scratch_size(const BestTokens &task) {
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

// Scans a state's logits [count] of one chunk.
template <typename Vec>
INLINE void look_through(const BestTokens &task, const ChoiceMemory &memory, int64_t thread,
                         int64_t state, int64_t chunk, int64_t count, float *logits) {
  const int64_t first = chunk * CHUNK_OUTPUTS;
  if (task.temperature != 1)
    for (int64_t i = 0; i < count; ++i) logits[i] /= task.temperature;
  float largest = largest_of<Vec>(logits, count);
  if (task.normalize) take_chunk<Vec>(memory.chunks_at(task, state), chunk, logits, count, largest);
  bool has_changed = false;
  apply_rules(task, state, [&](int64_t output, float penalty) {
    if (!is_within(output - first, count)) return;
    logits[output - first] -= penalty;
    has_changed = true;
  });
  if (has_changed) largest = largest_of<Vec>(logits, count);
  if (is_within(task.eos - first, count)) memory.end_logits[state] = logits[task.eos - first];
  for (int64_t at = state * task.n_asked; at < (state + 1) * task.n_asked; ++at)
    if (is_within(memory.asked[at] - first, count))
      task.asked_scores[at] = logits[memory.asked[at] - first];
  Kept &so_far = memory.n_kept[thread * task.n + state];
  if (!(largest > so_far.least)) return;
  BestCandidates best = memory.best_of(task, thread, state);
  add_outputs<Vec>(logits, first, count, best);
  so_far = {int32_t(best.n_kept), best.least};
}

// The best candidates over all threads.
INLINE BestCandidates best_of_threads(const BestTokens &task, const ChoiceMemory &memory,
                                      int64_t state, int64_t n_threads) {
  BestCandidates best = memory.best_of(task, 0, state);
  for (int64_t thread = 1; thread < n_threads; ++thread) {
    const BestCandidates other = memory.best_of(task, thread, state);
    for (int64_t i = 0; i < other.n_kept; ++i) best.add(other.kept[i]);
  }
  return best;
}

template <typename Vec>
INLINE void write_choice(const BestTokens &task, const ChoiceMemory &memory, int64_t state,
                         int64_t n_threads) {
  BestCandidates best = best_of_threads(task, memory, state, n_threads);
  Normalizer normalizer;
  if (task.normalize) normalizer = normalizer_of<Vec>(memory.chunks_at(task, state));
  for (int64_t i = 0; i < best.n_kept; ++i)
    best.kept[i].score = normalizer.log_prob(best.kept[i].score);
  // Without a normaliser, no token has a probability.
  if (best.n_kept && std::isnan(best.kept[0].score)) best.n_kept = 0;
  write(task, state, best, normalizer.log_prob(memory.end_logits[state]));
  for (int64_t number = 0; number < task.n_asked; ++number) {
    const int64_t at = state * task.n_asked + number;
    write_asked(task, state, number, memory.asked[at],
                normalizer.log_prob(task.asked_scores[at]));
  }
}

template <typename Vec>
INLINE void best_tokens(MultiplyFp32 multiply_fp32, const BestTokens &task,
                        const ThreadSlice &slice) {
  ChoiceMemory memory;
  lay_out(task, task.scratch, &memory);
  const Linear &linear = task.linear;
  const int64_t n = task.n, n_chunks = chunks_of(task);
  for (int64_t state = slice.number; state < n; state += slice.count) {
    for (int64_t at = state * task.n_asked; at < (state + 1) * task.n_asked; ++at)
      memory.asked[at] = int32_t(output_of(task, task.asked[at]));
    if (linear.rounds_inputs())
      quantize(linear, task.x + state * linear.inputs, memory.quantized, state, n);
    memory.chunks_at(task, state).clear(n_chunks);
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
