// Linear layers with weights and inputs in int8. Outputs are fp32.

#pragma once

#include "tiles.h"

namespace fastdec {
namespace {

#if defined(TARGET_INT8)
// Not __m512i, which has 64-bit integers: GCC would convert and copy all sums in every iteration.
typedef IntegersOf<Vec16>::Vec Vec16i;

constexpr int VNNI_PARTS = BLOCK / 16;

// Writes a token's outputs in a block to y [outputs].
TARGET_INT8 INLINE void write_int8_outputs(const Linear &linear, int64_t block,
                                           const Vec16i (&sums)[VNNI_PARTS], float scale, float *y,
                                           Epilogue epilogue) {
  float values[BLOCK];
  UNROLL
  for (int part = 0; part < VNNI_PARTS; ++part) {
    const int64_t output = block * BLOCK + part * 16;
    const __m512 scales = _mm512_set1_ps(scale) * _mm512_loadu_ps(linear.scales + output);
    const __m512 bias = _mm512_loadu_ps(linear.bias + output);
    _mm512_storeu_ps(values + part * 16,
                     _mm512_fmadd_ps(_mm512_cvtepi32_ps((__m512i)sums[part]), scales, bias));
  }
  apply_epilogue<Vec16>(epilogue, values, y + block * BLOCK, outputs_of(linear, block));
}

// A block of outputs of N tokens; the sums stay in registers.
template <int N>
TARGET_INT8 INLINE void multiply_tile_vnni(const Linear &linear, int64_t block, const uint8_t *x,
                                           const float *scales, float *y, Epilogue epilogue) {
  const int64_t length = padded_to_groups(linear.inputs);
  const auto *weight = static_cast<const int8_t *>(linear.weight) + block * length * BLOCK;
  const int32_t *compensation = linear.zero_point_compensation + block * BLOCK;
  Vec16i sums[N][VNNI_PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < VNNI_PARTS; ++part)
      sums[n][part] = (Vec16i)_mm512_loadu_si512(compensation + part * 16);
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    UNROLL
    for (int n = 0; n < N; ++n) {
      int32_t group;
      std::memcpy(&group, x + n * length + i, sizeof group);
      UNROLL
      for (int part = 0; part < VNNI_PARTS; ++part)
        sums[n][part] = (Vec16i)_mm512_dpbusd_epi32(
            (__m512i)sums[n][part], _mm512_set1_epi32(group),
            _mm512_loadu_si512(weight + part * 16 * GROUP));
    }
  }
  UNROLL
  for (int n = 0; n < N; ++n)
    write_int8_outputs(linear, block, sums[n], scales[n], y + n * linear.outputs, epilogue);
}

// Like multiply_tile_vnni, for n <= N tokens.
template <int N>
TARGET_INT8 INLINE void multiply_tile_vnni_of(int64_t n, const Linear &linear, int64_t block,
                                              const uint8_t *x, const float *scales, float *y,
                                              Epilogue epilogue) {
  if constexpr (N > 1)
    if (n < N) return multiply_tile_vnni_of<N - 1>(n, linear, block, x, scales, y, epilogue);
  multiply_tile_vnni<N>(linear, block, x, scales, y, epilogue);
}

TARGET_INT8 inline void multiply_block_vnni(const Linear &linear, int64_t block,
                                            const Int8Inputs &x, float *y, int64_t n,
                                            Epilogue epilogue) {
  for (int64_t token = 0; token < n; token += 8) {
    const uint8_t *from = x.values + token * padded_to_groups(linear.inputs);
    float *to = y + token * linear.outputs;
    multiply_tile_vnni_of<8>(n - token, linear, block, from, x.scales + token, to, epilogue);
  }
}
#endif

#if defined(TARGET_AVX2)
// Like multiply_tile_vnni. An instruction adds two products of unsigned and signed numbers in 16
// bits. The sums stay within them if inputs are absolute values, and weights w have the signs of
// products. For a negative input, the bits of w are inverted, which is -w - 1 and one instruction;
// the missing absolute values of negative inputs are the same for all outputs.
template <int N>
TARGET_AVX2 INLINE void multiply_tile_avx2(const Linear &linear, int64_t block, const Int8Inputs &x,
                                           int64_t token, float *y, Epilogue epilogue) {
  constexpr int PARTS = BLOCK / 8;
  const int64_t length = padded_to_groups(linear.inputs);
  const auto *weight = static_cast<const int8_t *>(linear.weight) + block * length * BLOCK;
  const uint8_t *const values = x.values + token * length, *const signs = x.signs + token * length;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = _mm256_set1_epi32(x.negative[token + n]);
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    __m256i sizes[N], own_signs[N];
    UNROLL
    for (int n = 0; n < N; ++n) {
      int32_t group;
      std::memcpy(&group, values + n * length + i, sizeof group);
      sizes[n] = _mm256_set1_epi32(group);
      std::memcpy(&group, signs + n * length + i, sizeof group);
      own_signs[n] = _mm256_set1_epi32(group);
    }
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const __m256i some = _mm256_loadu_si256((const __m256i *)(weight + part * 8 * GROUP));
      UNROLL
      for (int n = 0; n < N; ++n) {
        const __m256i pairs = _mm256_maddubs_epi16(sizes[n], _mm256_xor_si256(some, own_signs[n]));
        sums[n][part] = _mm256_add_epi32(sums[n][part], _mm256_madd_epi16(pairs, ones));
        // Or else compilers begin all products at once, and lack registers for the sums.
        asm volatile("" : "+x"(sums[n][part]));
      }
    }
  }
  UNROLL
  for (int n = 0; n < N; ++n) {
    float results[BLOCK];
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const int64_t output = block * BLOCK + part * 8;
      const __m256 scale =
          _mm256_set1_ps(x.scales[token + n]) * _mm256_loadu_ps(linear.scales + output);
      const __m256 bias = _mm256_loadu_ps(linear.bias + output);
      _mm256_storeu_ps(results + part * 8,
                       _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[n][part]), scale, bias));
    }
    float *to = y + (token + n) * linear.outputs + block * BLOCK;
    apply_epilogue<Vec8>(epilogue, results, to, outputs_of(linear, block));
  }
}

TARGET_AVX2 inline void multiply_block_avx2(const Linear &linear, int64_t block,
                                            const Int8Inputs &x, float *y, int64_t n,
                                            Epilogue epilogue) {
  int64_t token = 0;
  for (; token + 2 <= n; token += 2) multiply_tile_avx2<2>(linear, block, x, token, y, epilogue);
  if (token < n) multiply_tile_avx2<1>(linear, block, x, token, y, epilogue);
}
#endif

inline void multiply_block_int8_anywhere(const Linear &linear, int64_t block, const Int8Inputs &x,
                                         float *y, int64_t n, Epilogue epilogue) {
  const int64_t length = padded_to_groups(linear.inputs);
  const auto *const weight = static_cast<const int8_t *>(linear.weight) + block * length * BLOCK;
  for (int64_t token = 0; token < n; ++token) {
    const uint8_t *const from = x.values + token * length;
    int32_t sums[BLOCK];
    std::copy_n(linear.zero_point_compensation + block * BLOCK, BLOCK, sums);
    for (int64_t i = 0; i < length; i += GROUP)
      for (int output = 0; output < BLOCK; ++output)
        for (int place = 0; place < GROUP; ++place)
          sums[output] += from[i + place] * weight[i * BLOCK + output * GROUP + place];
    float values[BLOCK];
    for (int output = 0; output < BLOCK; ++output) {
      const int64_t at = block * BLOCK + output;
      values[output] = float(sums[output]) * (x.scales[token] * linear.scales[at]) + linear.bias[at];
    }
    apply_epilogue<Vec4>(epilogue, values, y + token * linear.outputs + block * BLOCK,
                         outputs_of(linear, block));
  }
}

#if defined(TARGET_AMX)
// For fewer tokens, reading the weights takes longer than their products with vectors.
constexpr int64_t FEWEST_TOKENS_IN_TILES = 12;

TARGET_AMX INLINE void write_int8_sums(const Linear &linear, int64_t block, int32_t *sums,
                                       float scale, float *y, Epilogue epilogue) {
  Vec16i parts[VNNI_PARTS];
  UNROLL
  for (int part = 0; part < VNNI_PARTS; ++part)
    parts[part] = (Vec16i)_mm512_loadu_si512(sums + part * 16);
  write_int8_outputs(linear, block, parts, scale, y, epilogue);
}
#endif

// Like multiply_fp32, from x in int8. Integer sums do not depend on the order.
inline void multiply_int8(const Linear &linear, const Int8Inputs &x, float *y, int64_t n,
                          const ThreadSlice &slice, Epilogue epilogue) {
#if defined(TARGET_AMX)
  if (n >= FEWEST_TOKENS_IN_TILES && uses_tiles(linear))
    return multiply_by_tiles<int32_t, write_int8_sums>(linear, linear.zero_point_compensation,
                                                       x.values, x.scales, y, n, slice, epilogue);
#endif
  auto *multiply_block = multiply_block_int8_anywhere;
#if defined(TARGET_AVX2)
  if (has_avx2()) multiply_block = multiply_block_avx2;
#endif
#if defined(TARGET_INT8)
  if (has_vnni()) multiply_block = multiply_block_vnni;
#endif
  const int64_t end = first_block(linear, slice.number + 1, slice);
  for (int64_t block = first_block(linear, slice.number, slice); block < end; ++block)
    multiply_block(linear, block, x, y, n, epilogue);
}

}  // namespace
}  // namespace fastdec
