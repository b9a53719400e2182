// Loads keys and values in fp32 or bf16 as fp32 vectors.

#pragma once

#include "simd.h"
#include "structures.h"

namespace fastdec {
namespace {

// The upper half of an fp32 number.
struct Bf16 {
  uint16_t bits;
};

INLINE float to_float(float x) { return x; }

INLINE float to_float(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

INLINE void round_to(const float *from, float *to, int64_t n) {
  std::memcpy(to, from, n * sizeof(float));
}

// Rounds to nearest, ties to even, like torch.
INLINE void round_to(const float *from, Bf16 *to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, from + i, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    to[i].bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded;  // NaN stays NaN
  }
}

template <typename Vec>
struct TwoVecs {
  Vec first, second;
};

// Loads the next 2 * width numbers.
template <typename Vec>
INLINE TwoVecs<Vec> load_two(const float *from) {
  return {load<Vec>(from), load<Vec>(from + width<Vec>())};
}

// Numbers with even indices are in the first vector: reordering would take longer than loading.
template <typename Vec>
INLINE TwoVecs<Vec> load_two(const Bf16 *from) {
  typename IntegersOf<Vec>::Vec pairs;
  std::memcpy(&pairs, from, sizeof pairs);
  return {(Vec)(pairs << 16), (Vec)(pairs & -0x10000)};
}

// x [n] in the order of load_two; if this order differs, it is written to memory [n].
template <typename Vec, typename Number>
INLINE const float *in_order_of_loads(const float *x, int64_t n, float *memory) {
  if (sizeof(Number) == sizeof(float)) return x;
  constexpr int WIDTH = width<Vec>();
  int64_t at = 0;
  for (; at + 2 * WIDTH <= n; at += 2 * WIDTH)
    for (int i = 0; i < WIDTH; ++i) {
      memory[at + i] = x[at + 2 * i];
      memory[at + WIDTH + i] = x[at + 2 * i + 1];
    }
  for (; at < n; ++at) memory[at] = x[at];
  return memory;
}

// Stores two vectors in the order of load_two in the original order.
template <typename Number, typename Vec>
INLINE void store_two(const TwoVecs<Vec> &vecs, float *to) {
  if (sizeof(Number) == sizeof(float)) {
    store(vecs.first, to), store(vecs.second, to + width<Vec>());
    return;
  }
  for (int i = 0; i < width<Vec>(); ++i) to[2 * i] = vecs.first[i], to[2 * i + 1] = vecs.second[i];
}

// The keys of a head in one slot; its values are at an offset of cache.part.
template <typename Number>
INLINE Number *keys_at(const Cache &cache, int64_t layer, int64_t slot, int64_t head) {
  return static_cast<Number *>(cache.data) + layer * cache.layer + slot * cache.slot +
         head * cache.head;
}

}  // namespace
}  // namespace fastdec
