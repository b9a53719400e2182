// The scratch memory of a step: shared memory, followed by that of each thread.

#pragma once

#include <algorithm>

#include "rounded_inputs.h"
#include "threads.h"

namespace fastdec {


// A thread of a step, and pointers to intermediate results.
struct Workspace : ThreadSlice {
  // Shared by all threads.
  float *x;          // [n, dim], the tokens' states
  float *queries;    // [n, 3 * dim] with keys and values, or [n, dim]
  float *context;    // [n, dim]
  float *hidden;     // [n, hidden]
  float *quantized;  // [quantized_size(n, max(dim, hidden))]
  // Separate for each thread.
  float *normalized;         // [n, dim]
  float *own_quantized;      // [own_quantized_size(n)]
  float *query;              // [MOST_QUERIES, head_dim]
  float *attention_weights;  // [MOST_QUERIES, n_weights]
  int64_t n_weights;
};

namespace {

// The maximum number of tokens that attend to the same keys together.
constexpr int64_t MOST_QUERIES = 4;

// The number of pieces of attention, which threads share.
INLINE int64_t attention_pieces(const Step &step) {
  int64_t n_beams = 0;
  for (int64_t row = 0; row < step.n_rows; row = step.end_of_beam(row)) ++n_beams;
  return n_beams * step.network.n_heads;
}

// The maximum number of keys of a query, with room for a last vector of any width.
INLINE int64_t most_keys(const Step &step) {
  int64_t most = 0;
  for (int64_t row = 0; row < step.n_rows; ++row)
    most = std::max({most, step.past[row] + step.n_new(row),
                     step.source_lengths[step.row_source[row]]});
  return most + width<Vec16>();
}

// Up to this number of inputs, over all tokens, each thread quantises all inputs, which is faster
// than a barrier.
constexpr int64_t FEW_INPUTS = 4096;

INLINE bool quantizes_together(const Linear &linear, int64_t n) {
  return linear.rounds_inputs() && n * linear.inputs > FEW_INPUTS;
}

// The floats for the inputs that each thread quantises.
INLINE int64_t own_quantized_size(int64_t n) { return n * GROUP + quantized_size(1, FEW_INPUTS); }

// The floats of scratch memory of each thread.
INLINE int64_t own_scratch_size(const Step &step) {
  const int64_t n = step.n(), dim = step.network.dim;
  const int64_t of_query = step.network.head_dim + most_keys(step);
  return n * dim + own_quantized_size(n) + MOST_QUERIES * of_query;
}

// The offset of a thread's memory: after the shared memory and that of the threads before it.
INLINE int64_t scratch_before(const Step &step, int64_t thread) {
  const int64_t n = step.n(), dim = step.network.dim, hidden = step.network.hidden;
  const int64_t shared = n * (4 * dim + hidden) + quantized_size(n, std::max(dim, hidden));
  return shared + thread * own_scratch_size(step);
}

INLINE Workspace workspace_of(const Step &step, const ThreadSlice &slice) {
  const int64_t n = step.n(), size = n * step.network.dim;
  Workspace own;
  own.number = slice.number, own.count = slice.count;
  own.x = step.features;
  own.queries = step.scratch;
  own.context = own.queries + 3 * size;
  own.hidden = own.context + size;
  own.quantized = own.hidden + n * step.network.hidden;
  own.normalized = step.scratch + scratch_before(step, slice.number);
  own.own_quantized = own.normalized + size;
  own.query = own.own_quantized + own_quantized_size(n);
  own.attention_weights = own.query + MOST_QUERIES * step.network.head_dim;
  own.n_weights = most_keys(step);
  return own;
}

}  // namespace
}  // namespace fastdec
