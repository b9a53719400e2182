// Linear layers in fp32.

#pragma once

#include "linear_blocks.h"

namespace {

// While a tile is computed, memory is prefetched: from here on, so many bytes for each input.
struct Prefetch {
  const char *at;
  int64_t step;
};

constexpr int64_t FEW_TILES = 3;

// While a block is multiplied with all tiles of tokens but the first, the next block is prefetched.
// The first tile waits for the memory itself. With few tiles prefetching is in the way.
INLINE Prefetch prefetch_during(const Linear &linear, int64_t block, bool is_last, int64_t tile,
                                int64_t n_tiles) {
  const int64_t size = linear.inputs * BLOCK * sizeof(float);
  const char *own = reinterpret_cast<const char *>(linear.weight) + block * size;
  if (is_last || tile == 0 || n_tiles <= FEW_TILES) return {own, 0};
  const int64_t share = size / (n_tiles - 1);
  return {own + size + (tile - 1) * share, share / linear.inputs};
}

// A block of outputs of N tokens, whose sums stay in registers.
template <typename Vec, int N>
INLINE void multiply_tile(const Linear &linear, int64_t block, const float *x, float *y,
                          Epilogue epilogue, Prefetch prefetch) {
  constexpr int PARTS = BLOCK / width<Vec>();
  const float *weight = linear.weight + block * linear.inputs * BLOCK;
  const float *bias = linear.bias + block * BLOCK;
  Vec sums[N][PARTS];
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < PARTS; ++part) sums[n][part] = load<Vec>(bias + part * width<Vec>());
  for (int64_t i = 0; i < linear.inputs; ++i, weight += BLOCK, prefetch.at += prefetch.step) {
    __builtin_prefetch(prefetch.at);
    for (int n = 0; n < N; ++n) {
      const float factor = x[n * linear.inputs + i];
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] += factor * load<Vec>(weight + part * width<Vec>());
    }
  }
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    std::memcpy(values, sums[n], sizeof values);
    float *to = y + n * linear.outputs + block * BLOCK;
    apply_epilogue<Vec>(epilogue, values, to, outputs_of(linear, block));
  }
}

// y [n, outputs] from x [n, inputs]; each thread computes some blocks of outputs.
template <typename Vec>
INLINE void multiply_fp32(const Linear &linear, const float *x, float *y, int64_t n,
                          const ThreadSlice &slice, Epilogue epilogue) {
  // The sums of so many tokens fit into registers.
  constexpr int TILE = width<Vec>() / 4;
  const int64_t end = first_block(linear, slice.number + 1, slice);
  for (int64_t block = first_block(linear, slice.number, slice); block < end; ++block) {
    for (int64_t token = 0; token < n; token += TILE) {
      const Prefetch prefetch =
          prefetch_during(linear, block, block + 1 == end, token / TILE, (n + TILE - 1) / TILE);
      const float *from = x + token * linear.inputs;
      float *to = y + token * linear.outputs;
      const int64_t left = n - token;
      if (left >= TILE)
        multiply_tile<Vec, TILE>(linear, block, from, to, epilogue, prefetch);
      else if (left == 1)
        multiply_tile<Vec, 1>(linear, block, from, to, epilogue, prefetch);
      else if (left == 2)
        multiply_tile<Vec, 2>(linear, block, from, to, epilogue, prefetch);
      else
        multiply_tile<Vec, 3>(linear, block, from, to, epilogue, prefetch);
    }
  }
}

}  // namespace
