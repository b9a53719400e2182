// Products in int8 with AVX-VNNI: vectors of 256 bits, and an instruction that adds four products of
// unsigned inputs and signed weights. Products in bf16 are those of AVX2.

#pragma once

#include "products_avx2.h"

namespace fastdec {
namespace {

#if defined(TARGET_AVX_VNNI)
// Inputs have the zero point.
TARGET_AVX2 inline void quantize_avx_vnni(const float *x, int64_t inputs, const Int8Inputs &to,
                                          int64_t token) {
  const __m256i zero_point = _mm256_set1_epi8(char(ZERO_POINT));
  const auto add = [&](__m256i rounded, uint8_t *values, uint8_t *) TARGET_AVX2 {
    _mm256_storeu_si256((__m256i *)values, _mm256_xor_si256(rounded, zero_point));
  };
  quantize_in_parts_avx2(x, inputs, to, token, add);
}

// A block of outputs of N tokens; the sums stay in registers.
template <int N>
TARGET_AVX_VNNI INLINE void multiply_tile_avx_vnni(const Linear &linear, int64_t block,
                                                   const Int8Inputs &x, int64_t token, float *y,
                                                   Epilogue epilogue) {
  typedef IntegersOf<Vec8>::Vec Integers;
  constexpr int PARTS = BLOCK / width<Vec8>();
  const int64_t length = padded_to_groups(linear.inputs);
  const int8_t *weight = weights_of<int8_t>(linear, block);
  const int32_t *const compensation = linear.zero_point_compensation + block * BLOCK;
  const uint8_t *const values = x.values + token * length;
  Integers sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n) std::memcpy(sums[n], compensation, sizeof sums[n]);
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    __m256i groups[N];
    UNROLL
    for (int n = 0; n < N; ++n) groups[n] = _mm256_set1_epi32(group_at(values + n * length + i));
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const auto *const from = (const __m256i *)(weight + part * width<Vec8>() * GROUP);
      const __m256i some = _mm256_loadu_si256(from);
      UNROLL
      for (int n = 0; n < N; ++n)
        sums[n][part] =
            (Integers)_mm256_dpbusd_avx_epi32((__m256i)sums[n][part], groups[n], some);
    }
  }
  write_int8_outputs<Vec8>(linear, block, sums, x.scales + token, y + token * linear.outputs,
                           epilogue);
}

// Twelve sums, three groups of inputs and a vector of weights fill the registers.
TARGET_AVX_VNNI inline void multiply_int8_avx_vnni(const Linear &linear, int64_t block,
                                                   const Int8Inputs &x, float *y, int64_t n,
                                                   Epilogue epilogue) {
  int64_t token = 0;
  for (; token + 3 <= n; token += 3)
    multiply_tile_avx_vnni<3>(linear, block, x, token, y, epilogue);
  if (token + 2 == n) multiply_tile_avx_vnni<2>(linear, block, x, token, y, epilogue);
  if (token + 1 == n) multiply_tile_avx_vnni<1>(linear, block, x, token, y, epilogue);
}

constexpr Products AVX_VNNI_PRODUCTS = {
    quantize_avx_vnni,
    multiply_blocks<Int8Inputs, multiply_int8_avx_vnni>,
    round_generic,
    multiply_blocks<Bf16Inputs, multiply_bf16_avx2>,
};
#endif

}  // namespace
}  // namespace fastdec
