// Products in int8 for all 64-bit processors of ARM. Products in bf16 are the generic ones, which
// compilers translate to NEON.

#pragma once

#include "products_generic.h"

namespace fastdec {
namespace {

#if defined(__aarch64__)
// The number of inputs that are quantised at a time.
constexpr int64_t QUANTIZED_NEON = 16;

// As integers from -127 to 127.
INLINE int8x16_t quantize_some_neon(const float *x, float steps_per_one) {
  int16x4_t whole[4];
  UNROLL
  for (int part = 0; part < 4; ++part)
    whole[part] = vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * part), steps_per_one)));
  return vcombine_s8(vqmovn_s16(vcombine_s16(whole[0], whole[1])),
                     vqmovn_s16(vcombine_s16(whole[2], whole[3])));
}

// Inputs are as they are.
inline void quantize_neon(const float *x, int64_t inputs, const Int8Inputs &to, int64_t token) {
  const int64_t length = padded_to_groups(inputs), whole = inputs / QUANTIZED_NEON * QUANTIZED_NEON;
  float rest[QUANTIZED_NEON] = {};
  std::copy(x + whole, x + inputs, rest);
  // See quantize_generic.
  int32x4_t sizes = vreinterpretq_s32_f32(vdupq_n_f32(SMALLEST_INPUT));
  const auto look_at = [&](const float *some) {
    UNROLL
    for (int i = 0; i < QUANTIZED_NEON; i += 4)
      sizes = vmaxq_s32(sizes, vreinterpretq_s32_f32(vabsq_f32(vld1q_f32(some + i))));
  };
  for (int64_t i = 0; i < whole; i += QUANTIZED_NEON) look_at(x + i);
  if (whole < inputs) look_at(rest);
  const float largest = float_of_bits(vmaxvq_s32(sizes)), steps_per_one = 127 / largest;
  auto *const values = reinterpret_cast<int8_t *>(to.values) + token * length;
  for (int64_t i = 0; i < whole; i += QUANTIZED_NEON)
    vst1q_s8(values + i, quantize_some_neon(x + i, steps_per_one));
  if (whole < inputs) {
    int8_t last[QUANTIZED_NEON];
    vst1q_s8(last, quantize_some_neon(rest, steps_per_one));
    std::memcpy(values + whole, last, length - whole);
  }
  to.scales[token] = largest / 127;
}

// A block of outputs of N tokens; the sums stay in registers. Instructions add two products in 16
// bits, which hold them, since neither factor is less than -127.
template <int N>
INLINE void multiply_tile_neon(const Linear &linear, int64_t block, const Int8Inputs &x,
                               int64_t token, float *y, Epilogue epilogue) {
  typedef IntegersOf<Vec4>::Vec Integers;
  constexpr int PARTS = BLOCK / width<Vec4>();
  const int64_t length = padded_to_groups(linear.inputs);
  const int8_t *weight = weights_of<int8_t>(linear, block);
  const uint8_t *const values = x.values + token * length;
  Integers sums[N][PARTS] = {};
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    int8x8_t groups[N];  // each twice
    UNROLL
    for (int n = 0; n < N; ++n)
      groups[n] = vreinterpret_s8_s32(vdup_n_s32(group_at(values + n * length + i)));
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const int8x16_t some = vld1q_s8(weight + part * width<Vec4>() * GROUP);
      UNROLL
      for (int n = 0; n < N; ++n) {
        const int16x8_t low = vmull_s8(vget_low_s8(some), groups[n]);
        const int16x8_t high = vmull_s8(vget_high_s8(some), groups[n]);
        const int16x8_t pairs = vpaddq_s16(low, high);
        sums[n][part] = (Integers)vpadalq_s16((int32x4_t)sums[n][part], pairs);
      }
    }
  }
  write_int8_outputs<Vec4>(linear, block, sums, x.scales + token, y + token * linear.outputs,
                           epilogue);
}

inline void multiply_int8_neon(const Linear &linear, int64_t block, const Int8Inputs &x, float *y,
                               int64_t n, Epilogue epilogue) {
  int64_t token = 0;
  for (; token + 2 <= n; token += 2) multiply_tile_neon<2>(linear, block, x, token, y, epilogue);
  if (token < n) multiply_tile_neon<1>(linear, block, x, token, y, epilogue);
}

constexpr Products NEON_PRODUCTS = {
    quantize_neon,
    multiply_blocks<Int8Inputs, multiply_int8_neon>,
    round_generic,
    multiply_blocks<Bf16Inputs, multiply_bf16_generic>,
};
#endif

}  // namespace
}  // namespace fastdec
