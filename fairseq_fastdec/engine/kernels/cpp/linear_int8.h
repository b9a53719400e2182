// Products of 8-bit integers: weights have codes from -127 to 127, inputs from 1 to 255.

#pragma once

#include "linear_fp32.h"

namespace {

constexpr int GROUP = 4;   // inputs of which one instruction adds up the products
constexpr int ZERO = 128;  // the code of an input of 0

// The inputs of n tokens as codes.
struct Codes {
  uint8_t *codes;  // [n, length_of_codes]
  float *units;    // [n]: what 1 is worth in a token's codes
};

INLINE int64_t length_of_codes(int64_t inputs) { return (inputs + GROUP - 1) / GROUP * GROUP; }

INLINE Codes codes_in(float *memory, int64_t n) {
  return {reinterpret_cast<uint8_t *>(memory + n), memory};
}

#if defined(__x86_64__)
#define WITH_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")))

// A token's inputs x [inputs], with 127 steps on either side of 0.
WITH_VNNI void quantize(const float *x, int64_t inputs, const Codes &to, int64_t token) {
  const int64_t length = length_of_codes(inputs);
  __m512 sizes = _mm512_set1_ps(1e-30f);  // a token of zeros must not divide by zero
  for (int64_t i = 0; i < inputs; i += 16) {
    const __m512 some = _mm512_maskz_loadu_ps(first(inputs - i), x + i);
    sizes = _mm512_max_ps(sizes, _mm512_abs_ps(some));
  }
  const float most = _mm512_reduce_max_ps(sizes);
  const __m512 per_unit = _mm512_set1_ps(127 / most);
  for (int64_t i = 0; i < length; i += 16) {
    const __m512 some = _mm512_maskz_loadu_ps(first(inputs - i), x + i);
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(some, per_unit));
    const __m128i codes = _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, _mm512_set1_epi32(ZERO)));
    _mm_mask_storeu_epi8(to.codes + token * length + i, first(length - i), codes);
  }
  to.units[token] = most / 127;
}

template <int N>
WITH_VNNI INLINE void tile_of_codes(const Linear &linear, int64_t block, const uint8_t *x,
                                    const float *units, float *y, Then then) {
  constexpr int PARTS = BLOCK / 16;
  const int64_t length = length_of_codes(linear.inputs);
  const int8_t *codes = linear.codes + block * length * BLOCK;
  __m512i sums[N][PARTS];
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = _mm512_loadu_si512(linear.starts + block * BLOCK + part * 16);
  for (int64_t i = 0; i < length; i += GROUP, codes += BLOCK * GROUP) {
    for (int n = 0; n < N; ++n) {
      int32_t group;
      std::memcpy(&group, x + n * length + i, sizeof group);
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] = _mm512_dpbusd_epi32(sums[n][part], _mm512_set1_epi32(group),
                                            _mm512_loadu_si512(codes + part * 64));
    }
  }
  for (int n = 0; n < N; ++n) {
    int32_t whole[BLOCK];
    float values[BLOCK];
    std::memcpy(whole, sums[n], sizeof whole);
    for (int i = 0; i < BLOCK; ++i) {
      const int64_t output = block * BLOCK + i;
      values[i] = whole[i] * (units[n] * linear.units[output]) + linear.bias[output];
    }
    float *to = y + n * linear.outputs + block * BLOCK;
    finish<Sixteen>(values, to, outputs_of(linear, block), then);
  }
}

// multiply_by, for codes. Sums of whole numbers are the same in any order.
WITH_VNNI void multiply_codes(const Linear &linear, const Codes &x, float *y, int64_t n,
                              const Share &share, Then then) {
  const int64_t length = length_of_codes(linear.inputs);
  const int64_t end = first_block(linear, share.number + 1, share);
  for (int64_t block = first_block(linear, share.number, share); block < end; ++block) {
    for (int64_t token = 0; token < n;) {
      const uint8_t *from = x.codes + token * length;
      const float *units = x.units + token;
      float *to = y + token * linear.outputs;
      const int64_t left = n - token;
      if (left >= 8)
        tile_of_codes<8>(linear, block, from, units, to, then), token += 8;
      else if (left >= 4)
        tile_of_codes<4>(linear, block, from, units, to, then), token += 4;
      else if (left >= 2)
        tile_of_codes<2>(linear, block, from, units, to, then), token += 2;
      else
        tile_of_codes<1>(linear, block, from, units, to, then), token += 1;
    }
  }
}
#else
// Never called: see has_vnni.
void quantize(const float *, int64_t, const Codes &, int64_t) {}
void multiply_codes(const Linear &, const Codes &, float *, int64_t, const Share &, Then) {}
#endif

}  // namespace
