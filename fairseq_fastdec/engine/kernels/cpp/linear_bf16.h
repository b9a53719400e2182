// Products of bf16 numbers, summed up in fp32.

#pragma once

#include "linear_fp32.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

constexpr int PAIR = 2;  // inputs of which one instruction adds up the products

INLINE int64_t length_of_halves(int64_t inputs) { return (inputs + PAIR - 1) / PAIR * PAIR; }

#if defined(__x86_64__) && (__GNUC__ >= 10 || defined(__clang__))
#define WITH_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma")))

// Compilers learned the name of the instructions before they learned to ask for it.
bool has_bf16() {
  unsigned eax, ebx, ecx, edx;
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 5 & 1);
}

// A token's inputs x [inputs], rounded.
WITH_BF16 void halve(const float *x, int64_t inputs, uint16_t *to) {
  const int64_t length = length_of_halves(inputs);
  for (int64_t i = 0; i < length; i += 16) {
    const __m512 some = _mm512_maskz_loadu_ps(first(inputs - i), x + i);
    _mm256_mask_storeu_epi16(to + i, first(length - i), (__m256i)_mm512_cvtneps_pbh(some));
  }
}

template <int N>
WITH_BF16 INLINE void tile_of_halves(const Linear &linear, int64_t block, const uint16_t *x,
                                     float *y, Then then) {
  constexpr int PARTS = BLOCK / 16;
  const int64_t length = length_of_halves(linear.inputs);
  const uint16_t *halves = linear.halves + block * length * BLOCK;
  __m512 sums[N][PARTS];
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = _mm512_loadu_ps(linear.bias + block * BLOCK + part * 16);
  for (int64_t i = 0; i < length; i += PAIR, halves += BLOCK * PAIR) {
    for (int n = 0; n < N; ++n) {
      int32_t pair;
      std::memcpy(&pair, x + n * length + i, sizeof pair);
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] =
            _mm512_dpbf16_ps(sums[n][part], (__m512bh)_mm512_set1_epi32(pair),
                             (__m512bh)_mm512_loadu_si512(halves + part * 16 * PAIR));
    }
  }
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    std::memcpy(values, sums[n], sizeof values);
    float *to = y + n * linear.outputs + block * BLOCK;
    finish<Sixteen>(values, to, outputs_of(linear, block), then);
  }
}

// multiply_by, for halves.
WITH_BF16 void multiply_halves(const Linear &linear, const uint16_t *x, float *y, int64_t n,
                               const Share &share, Then then) {
  const int64_t length = length_of_halves(linear.inputs);
  const int64_t end = first_block(linear, share.number + 1, share);
  for (int64_t block = first_block(linear, share.number, share); block < end; ++block) {
    for (int64_t token = 0; token < n;) {
      const uint16_t *from = x + token * length;
      float *to = y + token * linear.outputs;
      const int64_t left = n - token;
      if (left >= 8)
        tile_of_halves<8>(linear, block, from, to, then), token += 8;
      else if (left >= 4)
        tile_of_halves<4>(linear, block, from, to, then), token += 4;
      else if (left >= 2)
        tile_of_halves<2>(linear, block, from, to, then), token += 2;
      else
        tile_of_halves<1>(linear, block, from, to, then), token += 1;
    }
  }
}
#else
bool has_bf16() { return false; }
void halve(const float *, int64_t, uint16_t *) {}
void multiply_halves(const Linear &, const uint16_t *, float *, int64_t, const Share &, Then) {}
#endif

}  // namespace
