// Linear layers with weights and inputs in bf16. Sums, biases and outputs are fp32.

#pragma once

#include "tiles.h"

namespace fastdec {
namespace {

#if defined(TARGET_BF16)
// A block of outputs of N tokens; the sums stay in registers.
template <int N>
TARGET_BF16 INLINE void multiply_tile_dpbf16(const Linear &linear, int64_t block, const uint16_t *x,
                                           float *y, Epilogue epilogue) {
  constexpr int PARTS = BLOCK / 16;
  const int64_t length = padded_to_pairs(linear.inputs);
  const auto *weight = static_cast<const uint16_t *>(linear.weight) + block * length * BLOCK;
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

// Like multiply_tile_dpbf16, for n <= N tokens.
template <int N>
TARGET_BF16 INLINE void multiply_tile_dpbf16_of(int64_t n, const Linear &linear, int64_t block,
                                              const uint16_t *x, float *y, Epilogue epilogue) {
  if constexpr (N > 1)
    if (n < N) return multiply_tile_dpbf16_of<N - 1>(n, linear, block, x, y, epilogue);
  multiply_tile_dpbf16<N>(linear, block, x, y, epilogue);
}

TARGET_BF16 inline void multiply_block_dpbf16(const Linear &linear, int64_t block,
                                              const uint16_t *x, float *y, int64_t n,
                                              Epilogue epilogue) {
  for (int64_t token = 0; token < n; token += 8) {
    const uint16_t *from = x + token * padded_to_pairs(linear.inputs);
    multiply_tile_dpbf16_of<8>(n - token, linear, block, from, y + token * linear.outputs,
                               epilogue);
  }
}
#endif

// Like multiply_tile_dpbf16, in fp32: bf16 numbers are the upper halves of fp32 numbers.
template <typename Vec, int N>
INLINE void multiply_tile_widened(const Linear &linear, int64_t block, const uint16_t *x, float *y,
                                  Epilogue epilogue) {
  constexpr int PARTS = BLOCK / width<Vec>();
  const int64_t length = padded_to_pairs(linear.inputs);
  const auto *weight = static_cast<const uint16_t *>(linear.weight) + block * length * BLOCK;
  Vec sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = load<Vec>(linear.bias + block * BLOCK + part * width<Vec>());
  for (int64_t i = 0; i < length; i += PAIR, weight += BLOCK * PAIR) {
    prefetch_ahead(weight, BLOCK * PAIR * sizeof *weight);
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const auto *const pairs = reinterpret_cast<const Bf16 *>(weight + part * width<Vec>() * PAIR);
      const TwoVecs<Vec> weights = load_two<Vec>(pairs);
      UNROLL
      for (int n = 0; n < N; ++n) {
        sums[n][part] += to_float(Bf16{x[n * length + i]}) * weights.first;
        sums[n][part] += to_float(Bf16{x[n * length + i + 1]}) * weights.second;
      }
    }
  }
  UNROLL
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    UNROLL
    for (int part = 0; part < PARTS; ++part) store(sums[n][part], values + part * width<Vec>());
    float *to = y + n * linear.outputs + block * BLOCK;
    apply_epilogue<Vec>(epilogue, values, to, outputs_of(linear, block));
  }
}

template <typename Vec>
INLINE void multiply_block_widened(const Linear &linear, int64_t block, const uint16_t *x, float *y,
                                   int64_t n, Epilogue epilogue) {
  const int64_t length = padded_to_pairs(linear.inputs);
  int64_t token = 0;
  for (; token + 2 <= n; token += 2)
    multiply_tile_widened<Vec, 2>(linear, block, x + token * length, y + token * linear.outputs,
                                  epilogue);
  if (token < n)
    multiply_tile_widened<Vec, 1>(linear, block, x + token * length, y + token * linear.outputs,
                                  epilogue);
}

#if defined(TARGET_AVX2)
TARGET_AVX2 inline void multiply_block_bf16_avx2(const Linear &linear, int64_t block,
                                                 const uint16_t *x, float *y, int64_t n,
                                                 Epilogue epilogue) {
  multiply_block_widened<Vec8>(linear, block, x, y, n, epilogue);
}
#endif

inline void multiply_block_bf16_anywhere(const Linear &linear, int64_t block, const uint16_t *x,
                                         float *y, int64_t n, Epilogue epilogue) {
  multiply_block_widened<Vec4>(linear, block, x, y, n, epilogue);
}

#if defined(TARGET_AMX)
TARGET_AMX INLINE void write_bf16_sums(const Linear &linear, int64_t block, float *sums, float,
                                       float *y, Epilogue epilogue) {
  apply_epilogue<Vec16>(epilogue, sums, y + block * BLOCK, outputs_of(linear, block));
}
#endif

// Like multiply_fp32, from x [n, padded_to_pairs(inputs)] in bf16.
inline void multiply_bf16(const Linear &linear, const uint16_t *x, float *y, int64_t n,
                          const ThreadSlice &slice, Epilogue epilogue) {
#if defined(TARGET_AMX)
  // For any number of tokens: a token's sums must not depend on the tokens beside it, and those of
  // tiles have another order than those of vectors.
  if (uses_tiles(linear))
    return multiply_by_tiles<float, write_bf16_sums>(linear, linear.bias, x, nullptr, y, n, slice,
                                                     epilogue);
#endif
  auto *multiply_block = multiply_block_bf16_anywhere;
#if defined(TARGET_AVX2)
  if (has_avx2()) multiply_block = multiply_block_bf16_avx2;
#endif
#if defined(TARGET_BF16)
  if (has_bf16()) multiply_block = multiply_block_dpbf16;
#endif
  const int64_t end = first_block(linear, slice.number + 1, slice);
  for (int64_t block = first_block(linear, slice.number, slice); block < end; ++block)
    multiply_block(linear, block, x, y, n, epilogue);
}

}  // namespace
}  // namespace fastdec
