// Linear layers with weights and inputs in int8. Outputs are fp32.

#pragma once

#include "linear_blocks.h"
#include "quantize.h"

namespace {

#if defined(TARGET_INT8)
// A block of outputs of N tokens, whose sums stay in registers.
template <int N>
TARGET_INT8 INLINE void multiply_tile_int8(const Linear &linear, int64_t block, const uint8_t *x,
                                           const float *scales, float *y, Epilogue epilogue) {
  constexpr int PARTS = BLOCK / 16;
  const int64_t length = padded_to_groups(linear.inputs);
  const int8_t *weight = linear.weight_int8 + block * length * BLOCK;
  const int32_t *compensation = linear.zero_point_compensation + block * BLOCK;
  __m512i sums[N][PARTS];
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = _mm512_loadu_si512(compensation + part * 16);
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    for (int n = 0; n < N; ++n) {
      int32_t group;
      std::memcpy(&group, x + n * length + i, sizeof group);
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] = _mm512_dpbusd_epi32(sums[n][part], _mm512_set1_epi32(group),
                                            _mm512_loadu_si512(weight + part * 16 * GROUP));
    }
  }
  for (int n = 0; n < N; ++n) {
    int32_t whole[BLOCK];
    float values[BLOCK];
    std::memcpy(whole, sums[n], sizeof whole);
    for (int i = 0; i < BLOCK; ++i) {
      const int64_t output = block * BLOCK + i;
      values[i] = whole[i] * (scales[n] * linear.scales[output]) + linear.bias[output];
    }
    float *to = y + n * linear.outputs + block * BLOCK;
    apply_epilogue<Vec16>(epilogue, values, to, outputs_of(linear, block));
  }
}

// As multiply_fp32, from x in int8. Sums of integers are the same in any order.
TARGET_INT8 void multiply_int8(const Linear &linear, const Int8Inputs &x, float *y, int64_t n,
                               const ThreadSlice &slice, Epilogue epilogue) {
  const int64_t length = padded_to_groups(linear.inputs);
  const int64_t end = first_block(linear, slice.number + 1, slice);
  for (int64_t block = first_block(linear, slice.number, slice); block < end; ++block) {
    for (int64_t token = 0; token < n;) {
      const uint8_t *from = x.values + token * length;
      const float *scales = x.scales + token;
      float *to = y + token * linear.outputs;
      const int64_t left = n - token;
      if (left >= 8)
        multiply_tile_int8<8>(linear, block, from, scales, to, epilogue), token += 8;
      else if (left >= 4)
        multiply_tile_int8<4>(linear, block, from, scales, to, epilogue), token += 4;
      else if (left >= 2)
        multiply_tile_int8<2>(linear, block, from, scales, to, epilogue), token += 2;
      else
        multiply_tile_int8<1>(linear, block, from, scales, to, epilogue), token += 1;
    }
  }
}
#else
// Nobody calls this: see has_int8.
void multiply_int8(const Linear &, const Int8Inputs &, float *, int64_t, const ThreadSlice &,
                   Epilogue) {}
#endif

}  // namespace
