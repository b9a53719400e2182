// Products in int8 with ARM's dot product, an instruction that adds four products. Products in bf16
// are the generic ones.

#pragma once

#include "products_neon.h"

namespace fastdec {
namespace {

#if defined(TARGET_NEON_DOT)
// A block of outputs of N tokens; the sums stay in registers.
template <int N>
TARGET_NEON_DOT INLINE void multiply_tile_neon_dot(const Linear &linear, int64_t block,
                                                   const Int8Inputs &x, int64_t token, float *y,
                                                   Epilogue epilogue) {
  typedef IntegersOf<Vec4>::Vec Integers;
  constexpr int PARTS = BLOCK / width<Vec4>();
  const int64_t length = padded_to_groups(linear.inputs);
  const int8_t *weight = weights_of<int8_t>(linear, block);
  const uint8_t *const values = x.values + token * length;
  Integers sums[N][PARTS] = {};
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    int8x16_t groups[N];  // each four times
    UNROLL
    for (int n = 0; n < N; ++n)
      groups[n] = vreinterpretq_s8_s32(vdupq_n_s32(group_at(values + n * length + i)));
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const int8x16_t some = vld1q_s8(weight + part * width<Vec4>() * GROUP);
      UNROLL
      for (int n = 0; n < N; ++n)
        sums[n][part] = (Integers)vdotq_s32((int32x4_t)sums[n][part], some, groups[n]);
    }
  }
  write_int8_outputs<Vec4>(linear, block, sums, x.scales + token, y + token * linear.outputs,
                           epilogue);
}

// The sums of three tokens leave registers for their inputs and for weights.
TARGET_NEON_DOT inline void multiply_int8_neon_dot(const Linear &linear, int64_t block,
                                                   const Int8Inputs &x, float *y, int64_t n,
                                                   Epilogue epilogue) {
  int64_t token = 0;
  for (; token + 3 <= n; token += 3)
    multiply_tile_neon_dot<3>(linear, block, x, token, y, epilogue);
  if (token + 2 == n) multiply_tile_neon_dot<2>(linear, block, x, token, y, epilogue);
  if (token + 1 == n) multiply_tile_neon_dot<1>(linear, block, x, token, y, epilogue);
}

constexpr Products NEON_DOT_PRODUCTS = {
    quantize_neon,
    multiply_blocks<Int8Inputs, multiply_int8_neon_dot>,
    round_generic,
    multiply_blocks<Bf16Inputs, multiply_bf16_generic>,
};
#endif

}  // namespace
}  // namespace fastdec
