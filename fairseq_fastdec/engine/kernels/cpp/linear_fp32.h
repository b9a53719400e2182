// Linear layers in fp32.

#pragma once

#include "linear_blocks.h"

namespace fastdec {
namespace {

// Prefetching during a tile: the address for the first input, and the bytes to advance per input.
struct Prefetch {
  const char *at;
  int64_t step;
};

constexpr int64_t FEW_TILES = 3;

// The first tile of tokens prefetches the weights of its block. With many tiles, the others
// prefetch parts of the next block; with few tiles that is slower.
INLINE Prefetch prefetch_during(const Linear &linear, int64_t block, bool is_last, int64_t tile,
                                int64_t n_tiles) {
  constexpr int64_t of_input = BLOCK * sizeof(float);
  const int64_t size = linear.inputs * of_input;
  const char *own = static_cast<const char *>(linear.weight) + block * size;
  if (tile == 0) return {own + PREFETCH_BYTES, of_input};
  if (is_last || n_tiles <= FEW_TILES) return {own, 0};
  const int64_t share = size / (n_tiles - 1);
  return {own + size + (tile - 1) * share, share / linear.inputs};
}

#if !defined(FASTDEC_WIDEST_REGISTER)  // which tests define for a processor without AVX-512
#define FASTDEC_WIDEST_REGISTER 16
#endif

// Keeps a vector in a register: GCC would load it again for each product, and processors multiply
// faster than they load.
template <typename Vec>
INLINE Vec in_register(Vec x) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (width<Vec>() >= 8 && width<Vec>() <= FASTDEC_WIDEST_REGISTER) __asm__("" : "+v"(x));
#endif
  return x;
}

// Adds the products of one input of N tokens and the weights of a block. N factors and one vector of
// weights are in registers besides the sums.
template <typename Vec, int N, int PARTS>
INLINE void add_products(const float *weight, const float *x, int64_t inputs,
                         Vec (&sums)[N][PARTS]) {
  Vec factors[N];
  UNROLL
  for (int n = 0; n < N; ++n) factors[n] = in_register(x[n * inputs] - Vec{});
  UNROLL
  for (int part = 0; part < PARTS; ++part) {
    const Vec some = in_register(load<Vec>(weight + part * width<Vec>()));
    UNROLL
    for (int n = 0; n < N; ++n) sums[n][part] += factors[n] * some;
  }
}

// A block of outputs of N tokens; the sums stay in registers.
template <typename Vec, int N>
INLINE void multiply_tile(const Linear &linear, int64_t block, const float *x, float *y,
                          Epilogue epilogue, Prefetch prefetch) {
  constexpr int PARTS = BLOCK / width<Vec>();
  const float *weight = static_cast<const float *>(linear.weight) + block * linear.inputs * BLOCK;
  const float *bias = linear.bias + block * BLOCK;
  Vec sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part) sums[n][part] = load<Vec>(bias + part * width<Vec>());
  for (int64_t i = 0; i < linear.inputs; ++i, weight += BLOCK, prefetch.at += prefetch.step) {
    for (int64_t line = 0; line < int64_t(BLOCK * sizeof(float)); line += 64)
      __builtin_prefetch(prefetch.at + line);
    add_products(weight, x + i, linear.inputs, sums);
  }
  UNROLL
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    UNROLL
    for (int part = 0; part < PARTS; ++part) store(sums[n][part], values + part * width<Vec>());
    float *to = y + n * linear.outputs + block * BLOCK;
    apply_epilogue<Vec>(epilogue, values, to, outputs_of(linear, block));
  }
}

// Like multiply_tile, for n <= N tokens.
template <typename Vec, int N>
INLINE void multiply_tile_of(int64_t n, const Linear &linear, int64_t block, const float *x,
                             float *y, Epilogue epilogue, Prefetch prefetch) {
  if constexpr (N > 1)
    if (n < N)
      return multiply_tile_of<Vec, N - 1>(n, linear, block, x, y, epilogue, prefetch);
  multiply_tile<Vec, N>(linear, block, x, y, epilogue, prefetch);
}

// The number of blocks that are read at the same time for a single token: the processor fetches
// several streams of memory faster than one, and best without prefetching. The sums are in registers.
template <typename Vec>
constexpr int N_STREAMS = width<Vec>() == 16 ? 4 : width<Vec>() == 8 ? 3 : 1;

// N_STREAMS blocks of outputs of one token.
template <typename Vec>
INLINE void multiply_streams(const Linear &linear, int64_t block, const float *x, float *y,
                             Epilogue epilogue) {
  constexpr int PARTS = BLOCK / width<Vec>(), N = N_STREAMS<Vec>;
  const int64_t size = linear.inputs * BLOCK;
  const float *weight = static_cast<const float *>(linear.weight) + block * size;
  const float *bias = linear.bias + block * BLOCK;
  Vec sums[N][PARTS];
  UNROLL
  for (int own = 0; own < N; ++own)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[own][part] = load<Vec>(bias + own * BLOCK + part * width<Vec>());
  for (int64_t i = 0; i < linear.inputs; ++i, weight += BLOCK) {
    const float factor = x[i];
    UNROLL
    for (int own = 0; own < N; ++own) {
      UNROLL
      for (int part = 0; part < PARTS; ++part)
        sums[own][part] += factor * load<Vec>(weight + own * size + part * width<Vec>());
    }
  }
  UNROLL
  for (int own = 0; own < N; ++own) {
    float values[BLOCK];
    UNROLL
    for (int part = 0; part < PARTS; ++part) store(sums[own][part], values + part * width<Vec>());
    apply_epilogue<Vec>(epilogue, values, y + (block + own) * BLOCK, outputs_of(linear, block + own));
  }
}

// y [n, outputs] from x [n, inputs]; threads share the blocks of outputs.
template <typename Vec>
INLINE void multiply_fp32(const Linear &linear, const float *x, float *y, int64_t n,
                          const ThreadSlice &slice, Epilogue epilogue) {
  // The number of tokens whose sums fit into registers, of which there are 32 with AVX-512 and on
  // ARM, else 16.
#if defined(__aarch64__)
  constexpr int TILE = 3;
#else
  constexpr int TILE = width<Vec>() == 16 ? 8 : width<Vec>() == 8 ? 3 : 1;
#endif
  const int64_t end = first_block(linear, slice.number + 1, slice);
  int64_t block = first_block(linear, slice.number, slice);
  if constexpr (N_STREAMS<Vec> > 1)
    for (; n == 1 && block + N_STREAMS<Vec> <= end; block += N_STREAMS<Vec>)
      multiply_streams<Vec>(linear, block, x, y, epilogue);
  for (; block < end; ++block) {
    for (int64_t token = 0, tile = 0, size = 0; token < n; token += size, ++tile) {
      // Two tiles of two are faster than one of three and one of one.
      size = TILE == 3 && n - token == 4 ? 2 : std::min<int64_t>(TILE, n - token);
      const Prefetch prefetch =
          prefetch_during(linear, block, block + 1 == end, tile, (n + TILE - 1) / TILE);
      const float *from = x + token * linear.inputs;
      float *to = y + token * linear.outputs;
      multiply_tile_of<Vec, TILE>(size, linear, block, from, to, epilogue, prefetch);
    }
  }
}

}  // namespace
}  // namespace fastdec
