// Arithmetic with vectors of 4, 8 or 16 floats, which fill a register.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "processor.h"

namespace fastdec {
namespace {

typedef float Vec4 __attribute__((vector_size(16)));
typedef float Vec8 __attribute__((vector_size(32)));
typedef float Vec16 __attribute__((vector_size(64)));

// The vector of 32-bit integers with the same number of elements.
template <typename Vec>
struct IntegersOf;
template <>
struct IntegersOf<Vec4> {
  typedef int32_t Vec __attribute__((vector_size(16)));
};
template <>
struct IntegersOf<Vec8> {
  typedef int32_t Vec __attribute__((vector_size(32)));
};
template <>
struct IntegersOf<Vec16> {
  typedef int32_t Vec __attribute__((vector_size(64)));
};

template <typename Vec>
constexpr int width() {
  return sizeof(Vec) / sizeof(float);
}

// Selects elements of two vectors; the indices of the second vector follow those of the first.
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) \
  __builtin_shuffle(a, b, (IntegersOf<std::decay_t<decltype(a)>>::Vec){__VA_ARGS__})
#endif

// Loads and stores need no alignment: rows can have any length.
template <typename Vec>
INLINE Vec load(const float *from) {
  Vec vec;
  std::memcpy(&vec, from, sizeof vec);
  return vec;
}

template <typename Vec>
INLINE void store(const Vec &vec, float *to) {
#if defined(__aarch64__)
  // GCC would copy by general registers.
  if constexpr (width<Vec>() == 4) return vst1q_f32(to, (float32x4_t)vec);
#endif
  std::memcpy(to, &vec, sizeof vec);
}

// x with all elements after the first n replaced by `others`.
template <typename Vec>
INLINE Vec first_numbers(const Vec &x, int64_t n, float others) {
  typename IntegersOf<Vec>::Vec places;
  for (int i = 0; i < width<Vec>(); ++i) places[i] = i;
  return places < int32_t(std::min<int64_t>(n, width<Vec>())) ? x : Vec{} + others;
}

INLINE float reduce_add(const Vec4 &x) { return (x[0] + x[2]) + (x[1] + x[3]); }

INLINE float reduce_add(const Vec8 &x) {
  const Vec4 low = {x[0], x[1], x[2], x[3]}, high = {x[4], x[5], x[6], x[7]};
  return reduce_add(low + high);
}

INLINE float reduce_add(const Vec16 &x) {
  const Vec8 low = {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
  const Vec8 high = {x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]};
  return reduce_add(low + high);
}

INLINE float reduce_max(const Vec4 &x) {
  return std::max(std::max(x[0], x[2]), std::max(x[1], x[3]));
}

INLINE float reduce_max(const Vec8 &x) {
  const Vec4 low = {x[0], x[1], x[2], x[3]}, high = {x[4], x[5], x[6], x[7]};
  return reduce_max(low > high ? low : high);
}

INLINE float reduce_max(const Vec16 &x) {
  const Vec8 low = {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
  const Vec8 high = {x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]};
  return reduce_max(low > high ? low : high);
}

// A step of summing groups of elements of two vectors: adds the two halves of each group. The
// groups of b follow those of a.
template <int GROUP>
INLINE Vec4 add_halves(const Vec4 &a, const Vec4 &b) {
  if constexpr (GROUP == 4)
    return SHUFFLE(a, b, 0, 1, 4, 5) + SHUFFLE(a, b, 2, 3, 6, 7);
  else
    return SHUFFLE(a, b, 0, 2, 4, 6) + SHUFFLE(a, b, 1, 3, 5, 7);
}

template <int GROUP>
INLINE Vec8 add_halves(const Vec8 &a, const Vec8 &b) {
  if constexpr (GROUP == 8)
    return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  else if constexpr (GROUP == 4)
    return SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13) + SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
  else
    return SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14) + SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

template <int GROUP>
INLINE Vec16 add_halves(const Vec16 &a, const Vec16 &b) {
  if constexpr (GROUP == 16)
    return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  else if constexpr (GROUP == 8)
    return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  else if constexpr (GROUP == 4)
    return SHUFFLE(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) +
           SHUFFLE(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
  else
    return SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

// The sums of the elements of each of N vectors, with a third of the instructions of N separate
// sums. The sums are in order, and repeated in every group of N elements of the result.
template <int N, typename Vec>
INLINE Vec reduce_each(const Vec *x) {
  if constexpr (N == 1)
    return x[0];
  else
    return add_halves<width<Vec>() * 2 / N>(reduce_each<N / 2>(x), reduce_each<N / 2>(x + N / 2));
}

// Marks by 1 the elements of x that are NaN or infinity; returns these and earlier marks.
template <typename Vec>
INLINE Vec mark_unknown(const Vec &x, const Vec &marks) {
  return x < INFINITY ? marks : Vec{} + 1.0f;
}

template <typename Vec>
INLINE bool any_is_marked(const Vec &marks) {
  return reduce_max(marks) > 0;
}

// Sums are computed in this number of partial sums, whatever the width of vectors, so that
// processors with vectors of different widths get the same numbers.
constexpr int LANES = 16;

// The number of vectors of partial sums.
template <typename Vec>
constexpr int vectors_of_lanes() {
  return LANES / width<Vec>();
}

// Adds the two halves of N vectors, until one vector is left.
template <int N, typename Vec>
INLINE Vec fold(const Vec *x) {
  if constexpr (N == 1) {
    return x[0];
  } else {
    Vec half[N / 2];
    UNROLL
    for (int i = 0; i < N / 2; ++i) half[i] = x[i] + x[i + N / 2];
    return fold<N / 2>(half);
  }
}

template <typename Vec, int N>
INLINE float total(const Vec (&sums)[N]) {
  return reduce_add(fold<N>(sums));
}

// The sum of (x[i] - shift)^2.
template <typename Vec>
INLINE float sum_of_squares(const float *x, int64_t n, float shift) {
  Vec sums[vectors_of_lanes<Vec>()] = {};
  int64_t i = 0;
  for (; i + LANES <= n;)
    for (Vec &part : sums) {
      const Vec some = load<Vec>(x + i) - shift;
      part += some * some;
      i += width<Vec>();
    }
  float sum = total(sums);
  for (; i < n; ++i) sum += (x[i] - shift) * (x[i] - shift);
  return sum;
}

template <typename Vec>
INLINE float mean(const float *x, int64_t n) {
  Vec sums[vectors_of_lanes<Vec>()] = {};
  int64_t i = 0;
  for (; i + LANES <= n;)
    for (Vec &part : sums) {
      part += load<Vec>(x + i);
      i += width<Vec>();
    }
  float sum = total(sums);
  for (; i < n; ++i) sum += x[i];
  return sum / n;
}

// exp(x) for x <= 0, with a relative error of about 1e-7.
template <typename Vec>
INLINE Vec exponential(Vec x) {
  typedef typename IntegersOf<Vec>::Vec Integers;
  const Vec smallest = Vec{} - 87.0f;
  x = x > smallest ? x : smallest;
  // x = n ln(2) + rest. Adding 1.5 * 2^23 rounds to an integer, with n in the last bits.
  const float magic = 12582912.0f;
  const Vec shifted = x * 1.44269504088896341f + magic, n = shifted - magic;
  const Vec rest = x - n * 0.693359375f + n * 2.12194440e-4f;
  Vec y = rest * 1.9875691500e-4f + 1.3981999507e-3f;
  for (float next : {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    y = y * rest + next;
  y = y * rest * rest + rest + 1.0f;
  const Integers power = ((Integers)shifted << 23) + (127 << 23);
  return y * (Vec)power;
}

template <typename Vec>
INLINE Vec hyperbolic_tangent(Vec x) {
  const Vec power = exponential((x < 0 ? x : -x) * 2.0f), tangent = (1 - power) / (1 + power);
  return x < 0 ? -tangent : tangent;
}

template <typename Vec>
INLINE Vec sigmoid(Vec x) {
  const Vec power = exponential(x < 0 ? x : -x);
  return (x < 0 ? power : Vec{} + 1.0f) / (1.0f + power);
}

// x times the normal distribution function, approximated with tanh like fairseq's gelu_accurate.
template <typename Vec>
INLINE Vec gelu_by_tangent(Vec x) {
  return x * 0.5f * (hyperbolic_tangent((x + x * x * x * 0.044715f) * 0.79788456080286536f) + 1.0f);
}

// x times the normal distribution function; erf by Abramowitz and Stegun 7.1.26, with an error of
// 1.5e-7.
template <typename Vec>
INLINE Vec gelu(Vec x) {
  const Vec z = (x < 0 ? -x : x) * 0.70710678118654752f, t = 1 / (1 + z * 0.3275911f);
  Vec tail = t * 1.061405429f - 1.453152027f;
  for (float next : {1.421413741f, -0.284496736f, 0.254829592f}) tail = tail * t + next;
  tail = tail * t * exponential(-z * z) * 0.5f;
  return x * (x < 0 ? tail : 1 - tail);
}

}  // namespace
}  // namespace fastdec
