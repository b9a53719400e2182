// The inputs of linear layers in fewer bits: quantised to int8, or rounded to bf16.

#pragma once

#include <limits>

#include "keys_values.h"

namespace fastdec {
namespace {

// The quantised value of an input of 0: instructions multiply unsigned inputs by signed weights.
constexpr int ZERO_POINT = 128;
// Avoids division by zero for tokens of zeros.
constexpr float SMALLEST_INPUT = 1e-30f;

// The inputs of n tokens in int8. With AVX2 but without VNNI, they are absolute values and signs,
// see multiply_tile_avx2; otherwise they include the zero point, and there are no signs.
struct Int8Inputs {
  float *scales;      // [n]
  int32_t *negative;  // [n], the sums of the absolute values of negative inputs
  uint8_t *values;    // [n, padded_to_groups(inputs)], from 1 to 255, or absolute values up to 127
  uint8_t *signs;     // [n, padded_to_groups(inputs)], 255 for negative inputs, otherwise 0
};

INLINE int64_t padded_to_groups(int64_t inputs) { return (inputs + GROUP - 1) / GROUP * GROUP; }

INLINE int64_t padded_to_pairs(int64_t inputs) { return (inputs + PAIR - 1) / PAIR * PAIR; }

INLINE int32_t bits_of_float(float number) {
  int32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

INLINE float float_of_bits(int32_t bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

// The number of floats for the inputs of n tokens in any format: at most 2 bytes per input, and two
// numbers per token.
INLINE int64_t quantized_size(int64_t n, int64_t inputs) {
  return 2 * n + n * padded_to_groups(inputs) / 2;
}

INLINE Int8Inputs int8_inputs_in(float *memory, int64_t n, int64_t inputs) {
  auto *const values = reinterpret_cast<uint8_t *>(memory + 2 * n);
  return {memory, reinterpret_cast<int32_t *>(memory + n), values,
          values + n * padded_to_groups(inputs)};
}

#if defined(TARGET_INT8)
TARGET_INT8 inline void quantize_to_int8_avx512(const float *x, int64_t inputs,
                                                const Int8Inputs &to, int64_t token) {
  const int64_t length = padded_to_groups(inputs);
  // The bits of NaN are the largest, so a NaN is found, and is the scale.
  __m512i sizes = _mm512_castps_si512(_mm512_set1_ps(SMALLEST_INPUT));
  for (int64_t i = 0; i < inputs; i += 16) {
    const __m512 some = _mm512_maskz_loadu_ps(mask_of_first(inputs - i), x + i);
    sizes = _mm512_max_epi32(sizes, _mm512_castps_si512(_mm512_abs_ps(some)));
  }
  const float largest = float_of_bits(_mm512_reduce_max_epi32(sizes));
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
#endif

#if defined(TARGET_AVX2)
// 32 numbers as integers; whole numbers from -127 to 127, unless one is NaN.
TARGET_AVX2 INLINE __m256i rounded_to_int8(const float *x, __m256 steps_per_one) {
  __m256i whole[4];
  UNROLL
  for (int part = 0; part < 4; ++part)
    whole[part] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * part), steps_per_one));
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                            _mm256_packs_epi32(whole[2], whole[3]));
  // Packing alternates between the halves of vectors.
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

TARGET_AVX2 inline void quantize_to_int8_avx2(const float *x, int64_t inputs, const Int8Inputs &to,
                                              int64_t token) {
  constexpr int64_t WIDTH = 32;
  const int64_t length = padded_to_groups(inputs), whole = inputs / WIDTH * WIDTH;
  float rest[WIDTH] = {};
  std::copy(x + whole, x + inputs, rest);
  // See quantize_to_int8_avx512.
  const __m256i no_sign = _mm256_set1_epi32(std::numeric_limits<int32_t>::max());
  __m256i sizes = _mm256_castps_si256(_mm256_set1_ps(SMALLEST_INPUT));
  const auto look_at = [&](const float *some) TARGET_AVX2 {
    UNROLL
    for (int i = 0; i < WIDTH; i += 8)
      sizes = _mm256_max_epi32(
          sizes, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(some + i)), no_sign));
  };
  for (int64_t i = 0; i < whole; i += WIDTH) look_at(x + i);
  if (whole < inputs) look_at(rest);
  int32_t each[8];
  _mm256_storeu_si256((__m256i *)each, sizes);
  const float largest = float_of_bits(*std::max_element(each, each + 8));
  const __m256 steps_per_one = _mm256_set1_ps(127 / largest);
  uint8_t *const values = to.values + token * length;
  uint8_t *const signs = to.signs + token * length;
  const __m256i zero = _mm256_setzero_si256();
  __m256i negative = zero;  // 4 sums
  const auto split = [&](const float *some, uint8_t *absolute, uint8_t *sign) TARGET_AVX2 {
    const __m256i rounded = rounded_to_int8(some, steps_per_one);
    const __m256i size = _mm256_abs_epi8(rounded), is_negative = _mm256_cmpgt_epi8(zero, rounded);
    const __m256i sums = _mm256_sad_epu8(_mm256_and_si256(size, is_negative), zero);
    negative = _mm256_add_epi64(negative, sums);
    _mm256_storeu_si256((__m256i *)absolute, size);
    _mm256_storeu_si256((__m256i *)sign, is_negative);
  };
  for (int64_t i = 0; i < whole; i += WIDTH) split(x + i, values + i, signs + i);
  if (whole < inputs) {
    uint8_t absolute[WIDTH], sign[WIDTH];
    split(rest, absolute, sign);
    std::memcpy(values + whole, absolute, length - whole);
    std::memcpy(signs + whole, sign, length - whole);
  }
  int64_t parts[4];
  _mm256_storeu_si256((__m256i *)parts, negative);
  to.negative[token] = int32_t(parts[0] + parts[1] + parts[2] + parts[3]);
  to.scales[token] = largest / 127;
}
#endif

INLINE void quantize_to_int8_anywhere(const float *x, int64_t inputs, const Int8Inputs &to,
                                      int64_t token) {
  const int64_t length = padded_to_groups(inputs);
  // See quantize_to_int8_avx512.
  int32_t size = bits_of_float(SMALLEST_INPUT);
  for (int64_t i = 0; i < inputs; ++i)
    size = std::max(size, bits_of_float(x[i]) & std::numeric_limits<int32_t>::max());
  const float largest = float_of_bits(size), steps_per_one = 127 / largest;
  uint8_t *const values = to.values + token * length;
  for (int64_t i = 0; i < inputs; ++i) {
    // Adding 1.5 * 2^23 rounds to an integer, which is in the last bits.
    const float magic = 12582912.0f;
    const int32_t rounded = bits_of_float(x[i] * steps_per_one + magic) - bits_of_float(magic);
    values[i] = uint8_t(rounded + ZERO_POINT);
  }
  std::fill(values + inputs, values + length, uint8_t(ZERO_POINT));
  to.scales[token] = largest / 127;
}

// Quantises a token's inputs x [inputs] to integers from -127 to 127, plus the zero point.
inline void quantize_to_int8(const float *x, int64_t inputs, const Int8Inputs &to, int64_t token) {
#if defined(TARGET_INT8)
  if (has_vnni()) return quantize_to_int8_avx512(x, inputs, to, token);
#endif
#if defined(TARGET_AVX2)
  if (has_avx2()) return quantize_to_int8_avx2(x, inputs, to, token);
#endif
  quantize_to_int8_anywhere(x, inputs, to, token);
}

#if defined(TARGET_BF16)
TARGET_BF16 inline void round_to_bf16_avx512(const float *x, int64_t inputs, uint16_t *to) {
  const int64_t length = padded_to_pairs(inputs);
  for (int64_t i = 0; i < length; i += 16) {
    const __m512 some = _mm512_maskz_loadu_ps(mask_of_first(inputs - i), x + i);
    _mm256_mask_storeu_epi16(to + i, mask_of_first(length - i), (__m256i)_mm512_cvtneps_pbh(some));
  }
}
#endif

inline void round_to_bf16(const float *x, int64_t inputs, uint16_t *to) {
#if defined(TARGET_BF16)
  if (has_bf16()) return round_to_bf16_avx512(x, inputs, to);
#endif
  round_to(x, reinterpret_cast<Bf16 *>(to), inputs);
  std::fill(to + inputs, to + padded_to_pairs(inputs), uint16_t(0));
}

}  // namespace
}  // namespace fastdec
