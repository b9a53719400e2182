// Arithmetic in registers of 4, 8 or 16 floats.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
// GCC's own header makes registers of nothing.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

namespace {

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
typedef float Sixteen __attribute__((vector_size(64)));

// As many whole numbers of 32 bits.
template <typename Lanes>
struct Whole;
template <>
struct Whole<Four> {
  typedef int32_t Numbers __attribute__((vector_size(16)));
};
template <>
struct Whole<Eight> {
  typedef int32_t Numbers __attribute__((vector_size(32)));
};
template <>
struct Whole<Sixteen> {
  typedef int32_t Numbers __attribute__((vector_size(64)));
};

template <typename Lanes>
constexpr int width() {
  return sizeof(Lanes) / sizeof(float);
}

// A mask of the first n of 16.
INLINE uint16_t first(int64_t n) { return n < 16 ? (1 << n) - 1 : 0xffff; }

// From and to any address: rows need not begin where registers would.
template <typename Lanes>
INLINE Lanes load(const float *from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <typename Lanes>
INLINE void store(const Lanes &lanes, float *to) {
  std::memcpy(to, &lanes, sizeof lanes);
}

INLINE float total(const Four &x) { return (x[0] + x[2]) + (x[1] + x[3]); }

INLINE float total(const Eight &x) {
  const Four low = {x[0], x[1], x[2], x[3]}, high = {x[4], x[5], x[6], x[7]};
  return total(low + high);
}

INLINE float total(const Sixteen &x) {
  const Eight low = {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
  const Eight high = {x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]};
  return total(low + high);
}

INLINE float greatest(const Four &x) {
  return std::max(std::max(x[0], x[2]), std::max(x[1], x[3]));
}

INLINE float greatest(const Eight &x) {
  const Four low = {x[0], x[1], x[2], x[3]}, high = {x[4], x[5], x[6], x[7]};
  return greatest(low > high ? low : high);
}

INLINE float greatest(const Sixteen &x) {
  const Eight low = {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
  const Eight high = {x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]};
  return greatest(low > high ? low : high);
}

// Whether some of the numbers are not 0.
template <typename Numbers>
INLINE bool any(const Numbers &numbers) {
  int32_t all = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof all; ++i) all |= numbers[i];
  return all != 0;
}

// The sum of a[i] * b[i], or of (a[i] - shift)^2 without b.
template <typename Lanes>
INLINE float dot(const float *a, const float *b, int64_t n, float shift = 0) {
  Lanes lanes = {};
  int64_t i = 0;
  for (; i + width<Lanes>() <= n; i += width<Lanes>()) {
    const Lanes left = load<Lanes>(a + i) - shift;
    lanes += left * (b ? load<Lanes>(b + i) : left);
  }
  float sum = total(lanes);
  for (; i < n; ++i) sum += (a[i] - shift) * (b ? b[i] : a[i] - shift);
  return sum;
}

template <typename Lanes>
INLINE float mean(const float *x, int64_t n) {
  Lanes lanes = {};
  int64_t i = 0;
  for (; i + width<Lanes>() <= n; i += width<Lanes>()) lanes += load<Lanes>(x + i);
  float sum = total(lanes);
  for (; i < n; ++i) sum += x[i];
  return sum / n;
}

// e to the power of x, of numbers up to 0, to some 1e-7 of it.
template <typename Lanes>
INLINE Lanes exponential(Lanes x) {
  typedef typename Whole<Lanes>::Numbers Numbers;
  const Lanes smallest = Lanes{} - 87.0f;
  x = x > smallest ? x : smallest;
  // x = n ln(2) + rest. Adding 1.5 * 2^23 rounds to whole numbers, and leaves n in the last bits.
  const float magic = 12582912.0f;
  const Lanes shifted = x * 1.44269504088896341f + magic, n = shifted - magic;
  const Lanes rest = x - n * 0.693359375f + n * 2.12194440e-4f;
  Lanes y = rest * 1.9875691500e-4f + 1.3981999507e-3f;
  for (float next : {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    y = y * rest + next;
  y = y * rest * rest + rest + 1.0f;
  const Numbers power = ((Numbers)shifted << 23) + (127 << 23);
  return y * (Lanes)power;
}

// x times the normal distribution function; erf by Abramowitz and Stegun, 7.1.26, to 1.5e-7.
template <typename Lanes>
INLINE Lanes gelu(Lanes x) {
  const Lanes z = (x < 0 ? -x : x) * 0.70710678118654752f, t = 1 / (1 + z * 0.3275911f);
  Lanes tail = t * 1.061405429f - 1.453152027f;
  for (float next : {1.421413741f, -0.284496736f, 0.254829592f}) tail = tail * t + next;
  tail = tail * t * exponential(-z * z) * 0.5f;
  return x * (x < 0 ? tail : 1 - tail);
}

}  // namespace
