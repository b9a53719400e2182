// Linear layers with weights and inputs in bf16. Sums, biases and outputs are fp32.

#pragma once

#include "linear_blocks.h"
#include "quantize.h"

namespace fastdec {
namespace {

#if defined(TARGET_BF16)
// A block of outputs of N tokens, whose sums stay in registers.
template <int N>
TARGET_BF16 INLINE void multiply_tile_bf16(const Linear &linear, int64_t block, const uint16_t *x,
                                           float *y, Epilogue epilogue) {
  constexpr int PARTS = BLOCK / 16;
  const int64_t length = padded_to_pairs(linear.inputs);
  const uint16_t *weight = linear.weight_bf16 + block * length * BLOCK;
  __m512 sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = _mm512_loadu_ps(linear.bias + block * BLOCK + part * 16);
  for (int64_t i = 0; i < length; i += PAIR, weight += BLOCK * PAIR) {
    prefetch_ahead(weight, BLOCK * PAIR * sizeof *weight);
    UNROLL
    for (int n = 0; n < N; ++n) {
      int32_t pair;
      std::memcpy(&pair, x + n * length + i, sizeof pair);
      UNROLL
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] =
            _mm512_dpbf16_ps(sums[n][part], (__m512bh)_mm512_set1_epi32(pair),
                             (__m512bh)_mm512_loadu_si512(weight + part * 16 * PAIR));
    }
  }
  UNROLL
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    UNROLL
    for (int part = 0; part < PARTS; ++part) _mm512_storeu_ps(values + part * 16, sums[n][part]);
    float *to = y + n * linear.outputs + block * BLOCK;
    apply_epilogue<Vec16>(epilogue, values, to, outputs_of(linear, block));
  }
}

// As multiply_tile_bf16, of n tokens, at most N.
template <int N>
TARGET_BF16 INLINE void multiply_tile_bf16_of(int64_t n, const Linear &linear, int64_t block,
                                              const uint16_t *x, float *y, Epilogue epilogue) {
  if constexpr (N > 1)
    if (n < N) return multiply_tile_bf16_of<N - 1>(n, linear, block, x, y, epilogue);
  multiply_tile_bf16<N>(linear, block, x, y, epilogue);
}

// As multiply_fp32, from x [n, padded_to_pairs(inputs)] in bf16.
TARGET_BF16 void multiply_bf16(const Linear &linear, const uint16_t *x, float *y, int64_t n,
                               const ThreadSlice &slice, Epilogue epilogue) {
  const int64_t length = padded_to_pairs(linear.inputs);
  const int64_t end = first_block(linear, slice.number + 1, slice);
  for (int64_t block = first_block(linear, slice.number, slice); block < end; ++block) {
    for (int64_t token = 0; token < n; token += 8) {
      const uint16_t *from = x + token * length;
      float *to = y + token * linear.outputs;
      multiply_tile_bf16_of<8>(n - token, linear, block, from, to, epilogue);
    }
  }
}
#else
// Nobody calls this: see has_bf16.
void multiply_bf16(const Linear &, const uint16_t *, float *, int64_t, const ThreadSlice &,
                   Epilogue) {}
#endif

}  // namespace
}  // namespace fastdec
