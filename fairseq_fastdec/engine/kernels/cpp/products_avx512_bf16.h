// Products in bf16 with AVX512-BF16. Products in int8 are those of VNNI.

#pragma once

#include "products_avx512_vnni.h"

namespace fastdec {
namespace {

#if defined(TARGET_AVX512_BF16)
TARGET_AVX512_BF16 inline void round_avx512_bf16(const float *x, int64_t inputs, uint16_t *to) {
  const int64_t length = padded_to_pairs(inputs);
  for (int64_t i = 0; i < length; i += 16) {
    const __m512 some = _mm512_maskz_loadu_ps(mask_of_first(inputs - i), x + i);
    _mm256_mask_storeu_epi16(to + i, mask_of_first(length - i), (__m256i)_mm512_cvtneps_pbh(some));
  }
}

// A block of outputs of N tokens; the sums stay in registers.
template <int N>
TARGET_AVX512_BF16 INLINE void multiply_tile_avx512_bf16(const Linear &linear, int64_t block,
                                                         const uint16_t *x, float *y,
                                                         Epilogue epilogue) {
  constexpr int PARTS = BLOCK / width<Vec16>();
  const int64_t length = padded_to_pairs(linear.inputs);
  const auto *weight = weights_of<uint16_t>(linear, block);
  Vec16 sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = (Vec16)_mm512_loadu_ps(linear.bias + block * BLOCK + part * 16);
  for (int64_t i = 0; i < length; i += PAIR, weight += BLOCK * PAIR) {
    prefetch_ahead(weight, BLOCK * PAIR * sizeof *weight);
    UNROLL
    for (int n = 0; n < N; ++n) {
      const __m512i pair = _mm512_set1_epi32(group_at(x + n * length + i));
      UNROLL
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] = (Vec16)_mm512_dpbf16_ps(
            (__m512)sums[n][part], (__m512bh)pair,
            (__m512bh)_mm512_loadu_si512(weight + part * 16 * PAIR));
    }
  }
  write_bf16_outputs(linear, block, sums, y, epilogue);
}

// Like multiply_tile_avx512_bf16, for n <= N tokens.
template <int N>
TARGET_AVX512_BF16 INLINE void multiply_up_to_avx512_bf16(int64_t n, const Linear &linear,
                                                          int64_t block, const uint16_t *x,
                                                          float *y, Epilogue epilogue) {
  if constexpr (N > 1)
    if (n < N) return multiply_up_to_avx512_bf16<N - 1>(n, linear, block, x, y, epilogue);
  multiply_tile_avx512_bf16<N>(linear, block, x, y, epilogue);
}

TARGET_AVX512_BF16 inline void multiply_bf16_avx512_bf16(const Linear &linear, int64_t block,
                                                         const Bf16Inputs &x, float *y, int64_t n,
                                                         Epilogue epilogue) {
  for (int64_t token = 0; token < n; token += 8) {
    const uint16_t *from = x + token * padded_to_pairs(linear.inputs);
    multiply_up_to_avx512_bf16<8>(n - token, linear, block, from, y + token * linear.outputs,
                                  epilogue);
  }
}

constexpr Products AVX512_BF16_PRODUCTS = {
    quantize_avx512_vnni,
    multiply_blocks<Int8Inputs, multiply_int8_avx512_vnni>,
    round_avx512_bf16,
    multiply_blocks<Bf16Inputs, multiply_bf16_avx512_bf16>,
};
#endif

}  // namespace
}  // namespace fastdec
