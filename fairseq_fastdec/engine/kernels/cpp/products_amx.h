// Products in int8 and bf16 of 16 tokens by 16 outputs in one instruction: Intel's AMX.
//
// A tile has 16 rows of 64 bytes. The rows of the inputs are tokens. Those of the weights are groups
// of inputs, in the order in which weights are packed; see Linear. Layers whose inputs do not fill
// the rows of tiles use the products of AVX-512.

#pragma once

#include "products_avx512_bf16.h"

namespace fastdec {
namespace {

#if defined(TARGET_AMX)
constexpr int64_t TILE_ROWS = 16, TILE_ROW_BYTES = 64;
// A group of inputs: four numbers in int8, or two in bf16.
constexpr int64_t GROUP_BYTES = 4;
// The number of tokens whose sums are in tiles at the same time.
constexpr int64_t TOKENS_IN_TILES = 2 * TILE_ROWS;

static_assert(GROUP * sizeof(int8_t) == GROUP_BYTES && PAIR * sizeof(Bf16) == GROUP_BYTES);
static_assert(BLOCK * sizeof(float) == 2 * TILE_ROW_BYTES, "the outputs of a block are two tiles");

INLINE int64_t row_bytes_of(const Linear &linear) { return linear.n_groups() * GROUP_BYTES; }

INLINE bool fills_tiles(const Linear &linear) {
  return row_bytes_of(linear) % TILE_ROW_BYTES == 0;
}

// Tiles 0 to 3 are sums, 4 and 5 inputs, 6 and 7 weights.
TARGET_AMX INLINE void configure_tiles(int64_t n_tokens) {
  struct {
    uint8_t palette, first_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
  } config = {1, 0, {}, {}, {}};
  static_assert(sizeof config == 64, "the layout that the processor reads");
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = TILE_ROW_BYTES;
    config.n_rows[tile] = tile < 6 ? n_tokens : TILE_ROWS;
  }
  // GCC does not know that the instruction reads all of it.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

#define ADD_PRODUCT(SUMS, INPUTS, WEIGHTS)    \
  if constexpr (std::is_same_v<Sum, int32_t>) \
    _tile_dpbusd(SUMS, INPUTS, WEIGHTS);      \
  else                                        \
    _tile_dpbf16ps(SUMS, INPUTS, WEIGHTS)

// Writes the sums [TOKENS_IN_TILES, BLOCK] of a block's outputs, which begin with `start` [BLOCK] for
// each token. The inputs of the first tile's tokens begin at `first`, and those of the second tile at
// `second`, which may be null.
template <typename Sum>
TARGET_AMX INLINE void multiply_tiles(const char *weight, const Sum *start, const char *first,
                                      const char *second, int64_t row_bytes, bool prefetches,
                                      Sum *sums) {
  constexpr int64_t WEIGHT_ROW = 2 * TILE_ROW_BYTES;
  _tile_loadd(0, start, 0);
  _tile_loadd(1, start + BLOCK / 2, 0);
  _tile_loadd(2, start, 0);
  _tile_loadd(3, start + BLOCK / 2, 0);
  for (int64_t at = 0; at < row_bytes; at += TILE_ROW_BYTES, weight += TILE_ROWS * WEIGHT_ROW) {
    if (prefetches) prefetch_ahead(weight, TILE_ROWS * WEIGHT_ROW);
    _tile_loadd(6, weight, WEIGHT_ROW);
    _tile_loadd(7, weight + TILE_ROW_BYTES, WEIGHT_ROW);
    _tile_loadd(4, first + at, row_bytes);
    ADD_PRODUCT(0, 4, 6);
    ADD_PRODUCT(1, 4, 7);
    if (second) {
      _tile_loadd(5, second + at, row_bytes);
      ADD_PRODUCT(2, 5, 6);
      ADD_PRODUCT(3, 5, 7);
    }
  }
  _tile_stored(0, sums, WEIGHT_ROW);
  _tile_stored(1, sums + BLOCK / 2, WEIGHT_ROW);
  if (!second) return;
  _tile_stored(2, sums + TILE_ROWS * BLOCK, WEIGHT_ROW);
  _tile_stored(3, sums + TILE_ROWS * BLOCK + BLOCK / 2, WEIGHT_ROW);
}
#undef ADD_PRODUCT

// Like multiply_fp32, from inputs x [n, row_bytes_of(linear)] and their scales [n], which may be
// null. Sums begin with `starts` [blocks, BLOCK]. WRITE writes a token's outputs in a block to
// y [outputs], given their sums, which it may change.
template <typename Sum, void (*WRITE)(const Linear &linear, int64_t block, Sum *sums, float scale,
                                      float *y, Epilogue epilogue)>
TARGET_AMX void multiply_by_tiles(const Linear &linear, const Sum *starts, const void *x,
                                  const float *scales, float *y, int64_t n,
                                  const ThreadSlice &slice, Epilogue epilogue) {
  if (n == 0) return;  // tiles have at least one row
  const auto *const inputs = static_cast<const char *>(x);
  const auto *const weights = static_cast<const char *>(linear.weight);
  const int64_t row_bytes = row_bytes_of(linear), n_rows = std::min(n, TILE_ROWS);
  const int64_t end = first_block(linear, slice.number + 1, slice);
  configure_tiles(n_rows);
  for (int64_t block = first_block(linear, slice.number, slice); block < end; ++block)
    for (int64_t token = 0; token < n; token += TOKENS_IN_TILES) {
      Sum sums[TOKENS_IN_TILES * BLOCK];
      // A tile that would end behind the tokens begins earlier; its first rows are not written.
      const int64_t first = std::min(token, n - n_rows);
      const int64_t second = std::min(token + TILE_ROWS, n - n_rows);
      const bool has_second = token + TILE_ROWS < n;
      multiply_tiles(weights + block * row_bytes * BLOCK, starts + block * BLOCK,
                     inputs + first * row_bytes, has_second ? inputs + second * row_bytes : nullptr,
                     row_bytes, token == 0, sums);
      const int64_t last = std::min(n, token + TOKENS_IN_TILES);
      for (int64_t own = token; own < last; ++own) {
        const int64_t row = own < token + TILE_ROWS ? own - first : TILE_ROWS + own - second;
        WRITE(linear, block, sums + row * BLOCK, scales ? scales[own] : 1,
              y + own * linear.outputs, epilogue);
      }
    }
  _tile_release();
}

// For fewer tokens, reading the weights takes longer than their products with vectors.
constexpr int64_t FEWEST_TOKENS_IN_TILES = 12;

TARGET_AMX INLINE void write_int8_row(const Linear &linear, int64_t block, int32_t *sums,
                                      float scale, float *y, Epilogue epilogue) {
  write_int8_sums<Vec16>(linear, block, sums, scale, y, epilogue);
}

// Integer sums do not depend on their order, so the number of tokens may choose it.
TARGET_AMX inline void multiply_int8_amx(const Linear &linear, const Int8Inputs &x, float *y,
                                         int64_t n, const ThreadSlice &slice, Epilogue epilogue) {
  if (n >= FEWEST_TOKENS_IN_TILES && fills_tiles(linear))
    multiply_by_tiles<int32_t, write_int8_row>(linear, linear.zero_point_compensation, x.values,
                                                x.scales, y, n, slice, epilogue);
  else
    AVX512_BF16_PRODUCTS.multiply_int8(linear, x, y, n, slice, epilogue);
}

TARGET_AMX INLINE void write_bf16_row(const Linear &linear, int64_t block, float *sums, float,
                                      float *y, Epilogue epilogue) {
  apply_epilogue<Vec16>(epilogue, sums, y + block * BLOCK, outputs_of(linear, block));
}

// In tiles for any number of tokens: a token's sums must not depend on the tokens beside it, and
// those of tiles have another order than those of vectors.
TARGET_AMX inline void multiply_bf16_amx(const Linear &linear, const Bf16Inputs &x, float *y,
                                         int64_t n, const ThreadSlice &slice, Epilogue epilogue) {
  if (fills_tiles(linear))
    multiply_by_tiles<float, write_bf16_row>(linear, linear.bias, x, nullptr, y, n, slice,
                                              epilogue);
  else
    AVX512_BF16_PRODUCTS.multiply_bf16(linear, x, y, n, slice, epilogue);
}

constexpr Products AMX_PRODUCTS = {
    quantize_avx512_vnni,
    multiply_int8_amx,
    round_avx512_bf16,
    multiply_bf16_amx,
};
#endif

}  // namespace
}  // namespace fastdec
