// Products in int8 with AVX-512 and VNNI, an instruction that adds four products of unsigned inputs
// and signed weights. Products in bf16 are those of AVX2.

#pragma once

#include "products_avx512.h"

namespace fastdec {
namespace {

#if defined(TARGET_AVX512_VNNI)
// Inputs have the zero point.
TARGET_AVX512_VNNI inline void quantize_avx512_vnni(const float *x, int64_t inputs,
                                                    const Int8Inputs &to, int64_t token) {
  const int64_t length = padded_to_groups(inputs);
  const float largest = largest_avx512(x, inputs);
  const __m512 steps_per_one = _mm512_set1_ps(127 / largest);
  for (int64_t i = 0; i < length; i += 16) {
    const __m512 some = _mm512_maskz_loadu_ps(mask_of_first(inputs - i), x + i);
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(some, steps_per_one));
    const __m128i values =
        _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, _mm512_set1_epi32(ZERO_POINT)));
    _mm_mask_storeu_epi8(to.values + token * length + i, mask_of_first(length - i), values);
  }
  to.scales[token] = largest / 127;
}

// A block of outputs of N tokens; the sums stay in registers.
template <int N>
TARGET_AVX512_VNNI INLINE void multiply_tile_avx512_vnni(const Linear &linear, int64_t block,
                                                         const uint8_t *x, const float *scales,
                                                         float *y, Epilogue epilogue) {
  typedef IntegersOf<Vec16>::Vec Integers;  // see multiply_tile_avx512
  constexpr int PARTS = BLOCK / width<Vec16>();
  const int64_t length = padded_to_groups(linear.inputs);
  const int8_t *weight = weights_of<int8_t>(linear, block);
  const int32_t *compensation = linear.zero_point_compensation + block * BLOCK;
  Integers sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = (Integers)_mm512_loadu_si512(compensation + part * 16);
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    UNROLL
    for (int n = 0; n < N; ++n) {
      const __m512i group = _mm512_set1_epi32(group_at(x + n * length + i));
      UNROLL
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] = (Integers)_mm512_dpbusd_epi32(
            (__m512i)sums[n][part], group, _mm512_loadu_si512(weight + part * 16 * GROUP));
    }
  }
  write_int8_outputs<Vec16>(linear, block, sums, scales, y, epilogue);
}

// Like multiply_tile_avx512_vnni, for n <= N tokens.
template <int N>
TARGET_AVX512_VNNI INLINE void multiply_up_to_avx512_vnni(int64_t n, const Linear &linear,
                                                          int64_t block, const uint8_t *x,
                                                          const float *scales, float *y,
                                                          Epilogue epilogue) {
  if constexpr (N > 1)
    if (n < N) return multiply_up_to_avx512_vnni<N - 1>(n, linear, block, x, scales, y, epilogue);
  multiply_tile_avx512_vnni<N>(linear, block, x, scales, y, epilogue);
}

TARGET_AVX512_VNNI inline void multiply_int8_avx512_vnni(const Linear &linear, int64_t block,
                                                         const Int8Inputs &x, float *y, int64_t n,
                                                         Epilogue epilogue) {
  for (int64_t token = 0; token < n; token += 8) {
    const uint8_t *from = x.values + token * padded_to_groups(linear.inputs);
    float *to = y + token * linear.outputs;
    multiply_up_to_avx512_vnni<8>(n - token, linear, block, from, x.scales + token, to, epilogue);
  }
}

constexpr Products AVX512_VNNI_PRODUCTS = {
    quantize_avx512_vnni,
    multiply_blocks<Int8Inputs, multiply_int8_avx512_vnni>,
    round_generic,
    multiply_blocks<Bf16Inputs, multiply_bf16_avx2>,
};
#endif

}  // namespace
}  // namespace fastdec
