// Products in int8 with AVX-VNNI: vectors of 256 bits, and an instruction that adds four products of
// unsigned inputs and signed weights. Products in bf16 are those of AVX2.

#pragma once

#include "products_avx2.h"

namespace fastdec {
namespace {

#if defined(TARGET_AVX_VNNI)
// Inputs have the zero point.
TARGET_AVX_VNNI inline void quantize_avx_vnni(const float *x, int64_t inputs, const Int8Inputs &to,
                                              int64_t token) {
  const int64_t length = padded_to_groups(inputs), whole = inputs / QUANTIZED_AVX2 * QUANTIZED_AVX2;
  float rest[QUANTIZED_AVX2] = {};
  std::copy(x + whole, x + inputs, rest);
  const float largest = largest_avx2(x, inputs, rest);
  const __m256 steps_per_one = _mm256_set1_ps(127 / largest);
  const __m256i zero_point = _mm256_set1_epi8(char(ZERO_POINT));
  uint8_t *const values = to.values + token * length;
  const auto write = [&](const float *some, uint8_t *to) TARGET_AVX_VNNI {
    const __m256i rounded = quantize_some_avx2(some, steps_per_one);
    _mm256_storeu_si256((__m256i *)to, _mm256_xor_si256(rounded, zero_point));
  };
  for (int64_t i = 0; i < whole; i += QUANTIZED_AVX2) write(x + i, values + i);
  if (whole < inputs) {
    uint8_t last[QUANTIZED_AVX2];
    write(rest, last);
    std::memcpy(values + whole, last, length - whole);
  }
  to.scales[token] = largest / 127;
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
  UNROLL
  for (int n = 0; n < N; ++n)
    write_int8_outputs<Vec8>(linear, block, sums[n], x.scales[token + n],
                             y + (token + n) * linear.outputs, epilogue);
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
