// The blocks of outputs and the epilogues of all linear layers.

#pragma once

#include "simd.h"
#include "threads.h"

namespace fastdec {
namespace {

// Writes the first n of a block's values to y.
template <typename Vec>
INLINE void write_block(Epilogue epilogue, float *values, float *y, int64_t n) {
  for (int i = 0; i < BLOCK; i += width<Vec>()) {
    Vec some = load<Vec>(values + i);
    if (epilogue == Epilogue::RELU) some = some < 0 ? Vec{} : some;
    if (epilogue == Epilogue::GELU) some = gelu(some);
    if (epilogue == Epilogue::GELU_ACCURATE) some = gelu_by_tangent(some);
    if (epilogue == Epilogue::TANH) some = hyperbolic_tangent(some);
    if (epilogue == Epilogue::SWISH) some *= sigmoid(some);
    if (epilogue == Epilogue::ADD && n == BLOCK) some += load<Vec>(y + i);
    store(some, (n == BLOCK ? y : values) + i);
  }
  for (int64_t i = 0; n < BLOCK && i < n; ++i)
    y[i] = epilogue == Epilogue::ADD ? y[i] + values[i] : values[i];
}

// The same, as functions for each width of vectors. They are not inlined: products have many tiles,
// and compiling all epilogues into each would take minutes.
#define WRITE_BLOCK_FOR(VEC, TARGET)                                                          \
  [[gnu::noinline, maybe_unused]] TARGET void write_block_of(                                 \
      const VEC *, Epilogue epilogue, float *values, float *y, int64_t n) {                   \
    write_block<VEC>(epilogue, values, y, n);                                                 \
  }

WRITE_BLOCK_FOR(Vec4, )
#if defined(__x86_64__)
WRITE_BLOCK_FOR(Vec8, TARGET_AVX2)
WRITE_BLOCK_FOR(Vec16, TARGET_AVX512)
#else  // which only tests use
WRITE_BLOCK_FOR(Vec8, )
WRITE_BLOCK_FOR(Vec16, )
#endif
#undef WRITE_BLOCK_FOR

template <typename Vec>
INLINE void apply_epilogue(Epilogue epilogue, float *values, float *y, int64_t n) {
  write_block_of(static_cast<const Vec *>(nullptr), epilogue, values, y, n);
}

// Weights are read once per step, block by block, and often from memory. With several tokens, the
// processor does not look enough instructions ahead to load them in time.
constexpr int64_t PREFETCH_BYTES = 6144;

// Prefetches n_bytes, at a distance from the ones that are read next.
INLINE void prefetch_ahead(const void *next, int64_t n_bytes) {
  for (int64_t at = 0; at < n_bytes; at += 64)
    __builtin_prefetch(static_cast<const char *>(next) + PREFETCH_BYTES + at);
}

INLINE int64_t outputs_of(const Linear &linear, int64_t block) {
  return std::min<int64_t>(BLOCK, linear.outputs - block * BLOCK);
}

// The first block of a thread; its last one is before the next thread's first one.
INLINE int64_t first_block(const Linear &linear, int64_t thread, const ThreadSlice &slice) {
  return n_blocks_of(linear.outputs) * thread / slice.count;
}

}  // namespace
}  // namespace fastdec
