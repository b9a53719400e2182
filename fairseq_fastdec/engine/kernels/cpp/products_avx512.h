// Products in int8 with AVX-512 but without VNNI, as in AVX2. Products in bf16 are those of AVX2.

#pragma once

#include "products_avx2.h"

namespace fastdec {
namespace {

#if defined(TARGET_AVX512)
// The mask of the first n of 16 numbers.
INLINE uint16_t mask_of_first(int64_t n) { return n < 16 ? (1 << n) - 1 : 0xffff; }

// The largest absolute value of x [inputs].
TARGET_AVX512 INLINE float largest_avx512(const float *x, int64_t inputs) {
  // See quantize_generic.
  __m512i sizes = _mm512_castps_si512(_mm512_set1_ps(SMALLEST_INPUT));
  for (int64_t i = 0; i < inputs; i += 16) {
    const __m512 some = _mm512_maskz_loadu_ps(mask_of_first(inputs - i), x + i);
    sizes = _mm512_max_epi32(sizes, _mm512_castps_si512(_mm512_abs_ps(some)));
  }
  return float_of_bits(_mm512_reduce_max_epi32(sizes));
}

// Inputs have signs.
TARGET_AVX512 inline void quantize_avx512(const float *x, int64_t inputs, const Int8Inputs &to,
                                          int64_t token) {
  const int64_t length = padded_to_groups(inputs);
  const float largest = largest_avx512(x, inputs);
  const __m512 steps_per_one = _mm512_set1_ps(127 / largest);
  uint8_t *const values = to.values + token * length;
  uint8_t *const signs = to.signs + token * length;
  __m512i negative = _mm512_set1_epi32(0);
  for (int64_t i = 0; i < length; i += 16) {
    const uint16_t own = mask_of_first(length - i);
    const __m512 some = _mm512_maskz_loadu_ps(mask_of_first(inputs - i), x + i);
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(some, steps_per_one));
    const __m512i size = _mm512_abs_epi32(whole), sign = _mm512_srai_epi32(whole, 31);
    negative = _mm512_add_epi32(negative, _mm512_and_si512(size, sign));
    _mm_mask_storeu_epi8(values + i, own, _mm512_cvtepi32_epi8(size));
    _mm_mask_storeu_epi8(signs + i, own, _mm512_cvtepi32_epi8(sign));
  }
  to.negative[token] = _mm512_reduce_add_epi32(negative);
  to.scales[token] = largest / 127;
}

// See multiply_tile_avx2.
template <int N>
TARGET_AVX512 INLINE void multiply_tile_avx512(const Linear &linear, int64_t block,
                                               const Int8Inputs &x, int64_t token, float *y,
                                               Epilogue epilogue) {
  // Not __m512i, which has 64-bit integers: GCC would convert and copy all sums in every iteration.
  typedef IntegersOf<Vec16>::Vec Integers;
  constexpr int PARTS = BLOCK / width<Vec16>();
  const int64_t length = padded_to_groups(linear.inputs);
  const int8_t *weight = weights_of<int8_t>(linear, block);
  const uint8_t *const values = x.values + token * length, *const signs = x.signs + token * length;
  const __m512i ones = _mm512_set1_epi16(1);
  Integers sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part) sums[n][part] = Integers{} + x.negative[token + n];
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    UNROLL
    for (int n = 0; n < N; ++n) {
      const __m512i size = _mm512_set1_epi32(group_at(values + n * length + i));
      const __m512i sign = _mm512_set1_epi32(group_at(signs + n * length + i));
      UNROLL
      for (int part = 0; part < PARTS; ++part) {
        const __m512i some = _mm512_loadu_si512(weight + part * width<Vec16>() * GROUP);
        const __m512i pairs = _mm512_maddubs_epi16(size, _mm512_xor_si512(some, sign));
        sums[n][part] += (Integers)_mm512_madd_epi16(pairs, ones);
      }
    }
  }
  write_int8_outputs<Vec16>(linear, block, sums, x.scales + token, y + token * linear.outputs,
                           epilogue);
}

TARGET_AVX512 inline void multiply_int8_avx512(const Linear &linear, int64_t block,
                                               const Int8Inputs &x, float *y, int64_t n,
                                               Epilogue epilogue) {
  int64_t token = 0;
  for (; token + 4 <= n; token += 4) multiply_tile_avx512<4>(linear, block, x, token, y, epilogue);
  for (; token < n; ++token) multiply_tile_avx512<1>(linear, block, x, token, y, epilogue);
}

constexpr Products AVX512_PRODUCTS = {
    quantize_avx512,
    multiply_blocks<Int8Inputs, multiply_int8_avx512>,
    round_generic,
    multiply_blocks<Bf16Inputs, multiply_bf16_avx2>,
};
#endif

}  // namespace
}  // namespace fastdec
