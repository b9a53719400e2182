// Linear layers with weights and inputs in int8. Outputs are fp32.

#pragma once

#include "linear_blocks.h"
#include "quantize.h"

namespace fastdec {
namespace {

#if defined(TARGET_INT8)
// Not __m512i, of 64-bit integers: GCC would copy all sums in every turn, to convert them and back.
typedef IntegersOf<Vec16>::Vec Vec16i;

// A block of outputs of N tokens, whose sums stay in registers.
template <int N>
TARGET_INT8 INLINE void multiply_tile_int8(const Linear &linear, int64_t block, const uint8_t *x,
                                           const float *scales, float *y, Epilogue epilogue) {
  constexpr int PARTS = BLOCK / 16;
  const int64_t length = padded_to_groups(linear.inputs);
  const int8_t *weight = linear.weight_int8 + block * length * BLOCK;
  const int32_t *compensation = linear.zero_point_compensation + block * BLOCK;
  Vec16i sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = (Vec16i)_mm512_loadu_si512(compensation + part * 16);
  for (int64_t i = 0; i < length; i += GROUP, weight += BLOCK * GROUP) {
    prefetch_ahead(weight, BLOCK * GROUP);
    UNROLL
    for (int n = 0; n < N; ++n) {
      int32_t group;
      std::memcpy(&group, x + n * length + i, sizeof group);
      UNROLL
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] = (Vec16i)_mm512_dpbusd_epi32(
            (__m512i)sums[n][part], _mm512_set1_epi32(group),
            _mm512_loadu_si512(weight + part * 16 * GROUP));
    }
  }
  UNROLL
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const int64_t output = block * BLOCK + part * 16;
      const __m512 scale = _mm512_set1_ps(scales[n]) * _mm512_loadu_ps(linear.scales + output);
      const __m512 bias = _mm512_loadu_ps(linear.bias + output);
      _mm512_storeu_ps(values + part * 16,
                       _mm512_fmadd_ps(_mm512_cvtepi32_ps((__m512i)sums[n][part]), scale, bias));
    }
    float *to = y + n * linear.outputs + block * BLOCK;
    apply_epilogue<Vec16>(epilogue, values, to, outputs_of(linear, block));
  }
}

// As multiply_tile_int8, of n tokens, at most N.
template <int N>
TARGET_INT8 INLINE void multiply_tile_int8_of(int64_t n, const Linear &linear, int64_t block,
                                              const uint8_t *x, const float *scales, float *y,
                                              Epilogue epilogue) {
  if constexpr (N > 1)
    if (n < N) return multiply_tile_int8_of<N - 1>(n, linear, block, x, scales, y, epilogue);
  multiply_tile_int8<N>(linear, block, x, scales, y, epilogue);
}

// As multiply_fp32, from x in int8. Sums of integers are the same in any order.
TARGET_INT8 void multiply_int8(const Linear &linear, const Int8Inputs &x, float *y, int64_t n,
                               const ThreadSlice &slice, Epilogue epilogue) {
  const int64_t length = padded_to_groups(linear.inputs);
  const int64_t end = first_block(linear, slice.number + 1, slice);
  for (int64_t block = first_block(linear, slice.number, slice); block < end; ++block) {
    for (int64_t token = 0; token < n; token += 8) {
      const uint8_t *from = x.values + token * length;
      const float *scales = x.scales + token;
      float *to = y + token * linear.outputs;
      multiply_tile_int8_of<8>(n - token, linear, block, from, scales, to, epilogue);
    }
  }
}
#else
// Nobody calls this: see has_int8.
void multiply_int8(const Linear &, const Int8Inputs &, float *, int64_t, const ThreadSlice &,
                   Epilogue) {}
#endif

}  // namespace
}  // namespace fastdec
