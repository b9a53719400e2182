// Products in int8 and bf16 with AVX2.

#pragma once

#include "products_generic.h"

namespace fastdec {
namespace {

#if defined(TARGET_AVX2)
// The number of inputs that are quantised at a time.
constexpr int64_t QUANTIZED_AVX2 = 32;

// As integers from -127 to 127, unless one is NaN.
TARGET_AVX2 INLINE __m256i quantize_some_avx2(const float *x, __m256 steps_per_one) {
  __m256i whole[4];
  UNROLL
  for (int part = 0; part < 4; ++part)
    whole[part] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * part), steps_per_one));
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                            _mm256_packs_epi32(whole[2], whole[3]));
  // Packing alternates between the halves of vectors.
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Quantises a token's inputs x [inputs]. For each QUANTIZED_AVX2 of them, write(rounded, values,
// signs) stores to the places of `to`.
template <typename Write>
TARGET_AVX2 INLINE void quantize_in_parts_avx2(const float *x, int64_t inputs,
                                               const Int8Inputs &to, int64_t token, Write write) {
  const int64_t length = padded_to_groups(inputs), whole = inputs / QUANTIZED_AVX2 * QUANTIZED_AVX2;
  float rest[QUANTIZED_AVX2] = {};
  std::copy(x + whole, x + inputs, rest);
  // See quantize_generic.
  const __m256i no_sign = _mm256_set1_epi32(std::numeric_limits<int32_t>::max());
  __m256i sizes = _mm256_castps_si256(_mm256_set1_ps(SMALLEST_INPUT));
  for (int64_t at = 0; at < inputs; at += QUANTIZED_AVX2) {
    const float *const some = at < whole ? x + at : rest;
    UNROLL
    for (int i = 0; i < QUANTIZED_AVX2; i += 8)
      sizes = _mm256_max_epi32(
          sizes, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(some + i)), no_sign));
  }
  int32_t each[8];
  _mm256_storeu_si256((__m256i *)each, sizes);
  const float largest = float_of_bits(*std::max_element(each, each + 8));
  const __m256 steps_per_one = _mm256_set1_ps(127 / largest);
  uint8_t *const values = to.values + token * length;
  uint8_t *const signs = to.signs + token * length;
  for (int64_t i = 0; i < whole; i += QUANTIZED_AVX2)
    write(quantize_some_avx2(x + i, steps_per_one), values + i, signs + i);
  if (whole < inputs) {
    uint8_t last[QUANTIZED_AVX2], last_signs[QUANTIZED_AVX2] = {};
    write(quantize_some_avx2(rest, steps_per_one), last, last_signs);
    std::memcpy(values + whole, last, length - whole);
    std::memcpy(signs + whole, last_signs, length - whole);
  }
  to.scales[token] = largest / 127;
}

// Inputs have signs.
TARGET_AVX2 inline void quantize_avx2(const float *x, int64_t inputs, const Int8Inputs &to,
                                      int64_t token) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i negative = zero;  // 4 sums
  const auto split = [&](__m256i rounded, uint8_t *absolute, uint8_t *sign) TARGET_AVX2 {
    const __m256i size = _mm256_abs_epi8(rounded), is_negative = _mm256_cmpgt_epi8(zero, rounded);
    const __m256i sums = _mm256_sad_epu8(_mm256_and_si256(size, is_negative), zero);
    negative = _mm256_add_epi64(negative, sums);
    _mm256_storeu_si256((__m256i *)absolute, size);
    _mm256_storeu_si256((__m256i *)sign, is_negative);
  };
  quantize_in_parts_avx2(x, inputs, to, token, split);
  int64_t parts[4];
  _mm256_storeu_si256((__m256i *)parts, negative);
  to.negative[token] = int32_t(parts[0] + parts[1] + parts[2] + parts[3]);
}

// A block of outputs of N tokens; the sums stay in registers. An instruction adds two products of
// unsigned and signed numbers in 16 bits. The sums stay within them if inputs are absolute values,
// and weights w have the signs of products. For a negative input, the bits of w are inverted, which
// is -w - 1 and one instruction; the missing absolute values of negative inputs are the same for all
// outputs.
template <int N>
TARGET_AVX2 INLINE void multiply_tile_avx2(const Linear &linear, int64_t block, const Int8Inputs &x,
                                           int64_t token, float *y, Epilogue epilogue) {
  typedef IntegersOf<Vec8>::Vec Integers;
  constexpr int PARTS = BLOCK / width<Vec8>();
  const int64_t length = padded_to_groups(linear.inputs);
  const int8_t *weight = weights_of<int8_t>(linear, block);
  const uint8_t *const values = x.values + token * length, *const signs = x.signs + token * length;
  const __m256i ones = _mm256_set1_epi16(1);
  Integers sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part) sums[n][part] = Integers{} + x.negative[token + n];
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    __m256i sizes[N], own_signs[N];
    UNROLL
    for (int n = 0; n < N; ++n) {
      sizes[n] = _mm256_set1_epi32(group_at(values + n * length + i));
      own_signs[n] = _mm256_set1_epi32(group_at(signs + n * length + i));
    }
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const auto *const from = (const __m256i *)(weight + part * width<Vec8>() * GROUP);
      const __m256i some = _mm256_loadu_si256(from);
      UNROLL
      for (int n = 0; n < N; ++n) {
        const __m256i pairs = _mm256_maddubs_epi16(sizes[n], _mm256_xor_si256(some, own_signs[n]));
        sums[n][part] += (Integers)_mm256_madd_epi16(pairs, ones);
        // Or else compilers begin all products at once, and lack registers for the sums.
        __asm__ volatile("" : "+x"(sums[n][part]));
      }
    }
  }
  write_int8_outputs<Vec8>(linear, block, sums, x.scales + token, y + token * linear.outputs,
                           epilogue);
}

TARGET_AVX2 inline void multiply_int8_avx2(const Linear &linear, int64_t block, const Int8Inputs &x,
                                           float *y, int64_t n, Epilogue epilogue) {
  int64_t token = 0;
  for (; token + 2 <= n; token += 2) multiply_tile_avx2<2>(linear, block, x, token, y, epilogue);
  if (token < n) multiply_tile_avx2<1>(linear, block, x, token, y, epilogue);
}

TARGET_AVX2 inline void multiply_bf16_avx2(const Linear &linear, int64_t block, const Bf16Inputs &x,
                                           float *y, int64_t n, Epilogue epilogue) {
  multiply_block_widened<Vec8>(linear, block, x, y, n, epilogue);
}

constexpr Products AVX2_PRODUCTS = {
    quantize_avx2,
    multiply_blocks<Int8Inputs, multiply_int8_avx2>,
    round_generic,
    multiply_blocks<Bf16Inputs, multiply_bf16_avx2>,
};
#endif

}  // namespace
}  // namespace fastdec
