// Products in int8 with ARM's I8MM, an instruction that multiplies 2 x 8 by 8 x 2 numbers, and
// products in bf16 with ARM's BF16. Processors have both or neither.

#pragma once

#include "products_neon_dot.h"

namespace fastdec {
namespace {

#if defined(TARGET_NEON_I8MM)
// Half a block of outputs of up to N pairs of tokens; the sums stay in registers.
//   n: the number of tokens, 2 * N or one less
template <int N>
TARGET_NEON_I8MM INLINE void multiply_half_neon_i8mm(const Linear &linear, const int8_t *weight,
                                                     const Int8Inputs &x, int64_t token, int64_t n,
                                                     int32_t (*sums)[BLOCK]) {
  constexpr int OUTPUTS = 4, PARTS = BLOCK / 2 / OUTPUTS;  // of a vector, and vectors
  const int64_t length = padded_to_groups(linear.inputs);
  const uint8_t *const values = x.values + token * length;
  // For each pair of tokens and of outputs: the sums of the first token, and of the second one.
  int32x4_t of_pairs[N][2 * PARTS];
  UNROLL
  for (int pair = 0; pair < N; ++pair)
    UNROLL
    for (int part = 0; part < 2 * PARTS; ++part) of_pairs[pair][part] = vdupq_n_s32(0);
  for (int64_t i = 0; i < length; i += 2 * GROUP, weight += 2 * BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    // The last eight inputs may be four.
    const bool is_whole = i + GROUP < length;
    int8x16_t inputs[N];
    UNROLL
    for (int pair = 0; pair < N; ++pair) {
      const uint8_t *const first = values + 2 * pair * length + i;
      const uint8_t *const second = 2 * pair + 1 < n ? first + length : first;
      const int32x4_t groups = {group_at(first), is_whole ? group_at(first + GROUP) : 0,
                                group_at(second), is_whole ? group_at(second + GROUP) : 0};
      inputs[pair] = vreinterpretq_s8_s32(groups);
    }
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const int8_t *const from = weight + part * OUTPUTS * GROUP;
      const int32x4_t low = vreinterpretq_s32_s8(vld1q_s8(from));
      const int32x4_t high =
          is_whole ? vreinterpretq_s32_s8(vld1q_s8(from + BLOCK * GROUP)) : vdupq_n_s32(0);
      const int8x16_t left = vreinterpretq_s8_s32(vzip1q_s32(low, high));
      const int8x16_t right = vreinterpretq_s8_s32(vzip2q_s32(low, high));
      UNROLL
      for (int pair = 0; pair < N; ++pair) {
        of_pairs[pair][2 * part] = vmmlaq_s32(of_pairs[pair][2 * part], inputs[pair], left);
        of_pairs[pair][2 * part + 1] = vmmlaq_s32(of_pairs[pair][2 * part + 1], inputs[pair], right);
      }
    }
  }
  UNROLL
  for (int pair = 0; pair < N; ++pair)
    UNROLL
    for (int part = 0; part < 2 * PARTS; ++part) {
      vst1_s32(sums[2 * pair] + 2 * part, vget_low_s32(of_pairs[pair][part]));
      vst1_s32(sums[2 * pair + 1] + 2 * part, vget_high_s32(of_pairs[pair][part]));
    }
}

// Up to 2 * N tokens.
template <int N>
TARGET_NEON_I8MM INLINE void multiply_tile_neon_i8mm(const Linear &linear, int64_t block,
                                                     const Int8Inputs &x, int64_t token, int64_t n,
                                                     float *y, Epilogue epilogue) {
  constexpr int64_t HALF = BLOCK / 2;
  const int8_t *const weight = weights_of<int8_t>(linear, block);
  int32_t sums[2 * N][BLOCK];
  multiply_half_neon_i8mm<N>(linear, weight, x, token, n, sums);
  multiply_half_neon_i8mm<N>(linear, weight + HALF * GROUP, x, token, n,
                             reinterpret_cast<int32_t(*)[BLOCK]>(&sums[0][HALF]));
  for (int64_t own = 0; own < n; ++own)
    write_int8_sums<Vec4>(linear, block, sums[own], x.scales[token + own],
                          y + (token + own) * linear.outputs, epilogue);
}

// Bringing the weights in order takes an instruction for each product of the first pair of tokens,
// so few tokens are faster with dot products.
TARGET_NEON_I8MM inline void multiply_int8_neon_i8mm(const Linear &linear, int64_t block,
                                                     const Int8Inputs &x, float *y, int64_t n,
                                                     Epilogue epilogue) {
  if (n <= 3) return multiply_int8_neon_dot(linear, block, x, y, n, epilogue);
  for (int64_t token = 0; token < n; token += 6) {
    const int64_t own = std::min<int64_t>(n - token, 6);
    if (own > 4)
      multiply_tile_neon_i8mm<3>(linear, block, x, token, own, y, epilogue);
    else if (own > 2)
      multiply_tile_neon_i8mm<2>(linear, block, x, token, own, y, epilogue);
    else
      multiply_tile_neon_i8mm<1>(linear, block, x, token, own, y, epilogue);
  }
}

// A block of outputs of N tokens; the sums stay in registers.
template <int N>
TARGET_NEON_I8MM INLINE void multiply_tile_neon_bf16(const Linear &linear, int64_t block,
                                                     const uint16_t *x, float *y,
                                                     Epilogue epilogue) {
  constexpr int PARTS = BLOCK / width<Vec4>();
  const int64_t length = padded_to_pairs(linear.inputs);
  const auto *weight = weights_of<uint16_t>(linear, block);
  Vec4 sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = load<Vec4>(linear.bias + block * BLOCK + part * width<Vec4>());
  for (int64_t i = 0; i < length; i += PAIR, weight += BLOCK * PAIR) {
    prefetch_ahead(weight, BLOCK * PAIR * sizeof *weight);
    bfloat16x8_t pairs[N];  // each four times
    UNROLL
    for (int n = 0; n < N; ++n)
      pairs[n] = vreinterpretq_bf16_s32(vdupq_n_s32(group_at(x + n * length + i)));
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const bfloat16x8_t some =
          vreinterpretq_bf16_u16(vld1q_u16(weight + part * width<Vec4>() * PAIR));
      UNROLL
      for (int n = 0; n < N; ++n)
        sums[n][part] = (Vec4)vbfdotq_f32((float32x4_t)sums[n][part], some, pairs[n]);
    }
  }
  write_bf16_outputs(linear, block, sums, y, epilogue);
}

TARGET_NEON_I8MM inline void multiply_bf16_neon(const Linear &linear, int64_t block,
                                                const Bf16Inputs &x, float *y, int64_t n,
                                                Epilogue epilogue) {
  const int64_t inputs = padded_to_pairs(linear.inputs), outputs = linear.outputs;
  int64_t token = 0;
  for (; token + 3 <= n; token += 3)
    multiply_tile_neon_bf16<3>(linear, block, x + token * inputs, y + token * outputs, epilogue);
  for (; token < n; ++token)
    multiply_tile_neon_bf16<1>(linear, block, x + token * inputs, y + token * outputs, epilogue);
}

constexpr Products NEON_I8MM_PRODUCTS = {
    quantize_neon,
    multiply_blocks<Int8Inputs, multiply_int8_neon_i8mm>,
    round_generic,
    multiply_blocks<Bf16Inputs, multiply_bf16_neon>,
};
#endif

}  // namespace
}  // namespace fastdec
