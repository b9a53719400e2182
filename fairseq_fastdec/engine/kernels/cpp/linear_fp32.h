// Linear layers, and their products in fp32.

#pragma once

#include "simd.h"

namespace {

constexpr int BLOCK = 32;  // outputs that lie side by side in a packed weight

// The last block may be filled up.
struct Linear {
  const float *weight;     // [blocks, inputs, BLOCK], or 0 where there are others instead:
  const uint16_t *halves;  // [blocks, pairs, BLOCK, PAIR], bf16, the last pair filled up, or
  const int8_t *codes;     // [blocks, groups, BLOCK, GROUP], the last group filled up with zeros
  const int32_t *starts;   // [blocks, BLOCK]: what takes the inputs' ZERO out of their sums
  const float *units;      // [blocks, BLOCK]: what 1 is worth in an output's codes
  const float *bias;       // [blocks, BLOCK]
  int64_t inputs, outputs;
};

// One of the threads that do something together.
struct Share {
  int64_t number, count;
};

// GCC's OpenMP library, in which torch has its threads: fn(data) in so many of them, or fewer.
struct Threads {
  void (*parallel)(void (*fn)(void *), void *data, unsigned n_threads, unsigned flags);
  int (*number)();
  int (*count)();
};

enum class Then { STORE, ADD, RELU, GELU };

// What follows a product; of the BLOCK values only the first n have a place.
template <typename Lanes>
INLINE void finish(float *values, float *to, int64_t n, Then then) {
  if (then == Then::GELU)
    for (int i = 0; i < BLOCK; i += width<Lanes>())
      store(gelu(load<Lanes>(values + i)), values + i);
  for (int64_t i = 0; i < n; ++i) {
    float value = values[i];
    if (then == Then::ADD) value += to[i];
    if (then == Then::RELU) value = std::max(value, 0.0f);
    to[i] = value;
  }
}

INLINE int64_t outputs_of(const Linear &linear, int64_t block) {
  return std::min<int64_t>(BLOCK, linear.outputs - block * BLOCK);
}

// The first of the blocks that a thread computes; its last one lies before the next thread's first.
INLINE int64_t first_block(const Linear &linear, int64_t thread, const Share &share) {
  return (linear.outputs + BLOCK - 1) / BLOCK * thread / share.count;
}

// What to fetch while a tile is computed: from here on, so many bytes for each input.
struct Ahead {
  const char *at;
  int64_t step;
};

constexpr int64_t FEW_TILES = 3;

// While a block is multiplied with all tiles but the first, which waits for the memory itself, the
// next block is fetched. That takes off a sixth of the time of 20 tokens and more; where the tiles
// are few, it is in the way.
INLINE Ahead ahead_of(const Linear &linear, int64_t block, bool is_last, int64_t number,
                      int64_t n_tiles) {
  const int64_t size = linear.inputs * BLOCK * sizeof(float);
  const char *own = reinterpret_cast<const char *>(linear.weight) + block * size;
  if (is_last || number == 0 || n_tiles <= FEW_TILES) return {own, 0};
  const int64_t share = size / (n_tiles - 1);
  return {own + size + (number - 1) * share, share / linear.inputs};
}

template <typename Lanes, int N>
INLINE void tile(const Linear &linear, int64_t block, const float *x, float *y, Then then,
                 Ahead ahead) {
  constexpr int PARTS = BLOCK / width<Lanes>();
  const float *weight = linear.weight + block * linear.inputs * BLOCK;
  const float *bias = linear.bias + block * BLOCK;
  Lanes sums[N][PARTS];
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = load<Lanes>(bias + part * width<Lanes>());
  for (int64_t i = 0; i < linear.inputs; ++i, weight += BLOCK, ahead.at += ahead.step) {
    __builtin_prefetch(ahead.at);
    for (int n = 0; n < N; ++n) {
      const float factor = x[n * linear.inputs + i];
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] += factor * load<Lanes>(weight + part * width<Lanes>());
    }
  }
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    std::memcpy(values, sums[n], sizeof values);
    float *to = y + n * linear.outputs + block * BLOCK;
    finish<Lanes>(values, to, outputs_of(linear, block), then);
  }
}

// y [n, outputs] from x [n, inputs]; each thread computes some of the outputs.
template <typename Lanes>
INLINE void multiply_by(const Linear &linear, const float *x, float *y, int64_t n,
                        const Share &share, Then then) {
  // As many tokens at a time as their sums fit into registers.
  constexpr int TILE = width<Lanes>() / 4;
  const int64_t end = first_block(linear, share.number + 1, share);
  for (int64_t block = first_block(linear, share.number, share); block < end; ++block) {
    for (int64_t token = 0; token < n; token += TILE) {
      const Ahead ahead =
          ahead_of(linear, block, block + 1 == end, token / TILE, (n + TILE - 1) / TILE);
      const float *from = x + token * linear.inputs;
      float *to = y + token * linear.outputs;
      const int64_t left = n - token;
      if (left >= TILE)
        tile<Lanes, TILE>(linear, block, from, to, then, ahead);
      else if (left == 1)
        tile<Lanes, 1>(linear, block, from, to, then, ahead);
      else if (left == 2)
        tile<Lanes, 2>(linear, block, from, to, then, ahead);
      else
        tile<Lanes, 3>(linear, block, from, to, then, ahead);
    }
  }
}

}  // namespace
