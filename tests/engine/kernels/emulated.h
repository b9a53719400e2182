// Instructions that few processors have, in plain C++, so that their kernels are tested on all.
//
// test_kernels.py includes it before the kernels. It replaces the intrinsics that products_avx_vnni.h,
// products_avx512*.h and products_amx.h use; kernels have no targets then.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#define FASTDEC_EMULATED
#define TARGET(features)
#include <immintrin.h>

namespace emulated {

// Vectors as arrays of numbers.
template <typename Number, int N>
struct Numbers {
  Number at[N];
};

template <typename Number, typename Register>
auto numbers_of(const Register &from) {
  Numbers<Number, sizeof(Register) / sizeof(Number)> numbers;
  std::memcpy(&numbers, &from, sizeof numbers);
  return numbers;
}

template <typename Register, typename Array>
Register in_register(const Array &numbers) {
  static_assert(sizeof(Register) == sizeof(Array));
  Register to;
  std::memcpy(&to, &numbers, sizeof to);
  return to;
}

// f of each number of one or two registers.
template <typename Number, typename Register, typename F>
Register each(const Register &a, F f) {
  auto numbers = numbers_of<Number>(a);
  for (Number &number : numbers.at) number = f(number);
  return in_register<Register>(numbers);
}

template <typename Number, typename Register, typename F>
Register each(const Register &a, const Register &b, F f) {
  auto left = numbers_of<Number>(a);
  const auto right = numbers_of<Number>(b);
  int i = 0;
  for (Number &number : left.at) number = f(number, right.at[i++]);
  return in_register<Register>(left);
}

template <typename Number>
__m512i repeated(Number number) {
  Numbers<Number, 64 / sizeof(Number)> numbers;
  for (Number &own : numbers.at) own = number;
  return in_register<__m512i>(numbers);
}

// Adds products of unsigned and signed bytes to 32-bit sums: VPDPBUSD.
template <typename Register>
Register add_dots(const Register &sums, const Register &inputs, const Register &weights) {
  auto to = numbers_of<int32_t>(sums);
  const auto unsigned_bytes = numbers_of<uint8_t>(inputs);
  const auto signed_bytes = numbers_of<int8_t>(weights);
  for (int i = 0; i < int(sizeof(Register)); ++i)
    to.at[i / 4] += unsigned_bytes.at[i] * signed_bytes.at[i];
  return in_register<Register>(to);
}

inline float float_of(uint16_t bf16) {
  const uint32_t bits = uint32_t(bf16) << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

inline uint16_t bf16_of(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return std::isnan(number) ? 0x7fc0 : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename Register, typename Number>
void store_masked(Number *to, uint64_t mask, const Register &from) {
  const auto numbers = numbers_of<Number>(from);
  for (int i = 0; i < int(sizeof from / sizeof(Number)); ++i)
    if (mask >> i & 1) to[i] = numbers.at[i];
}

// AMX: tiles of up to 16 rows of up to 64 bytes.
struct Tile {
  int n_rows, row_bytes;
  alignas(64) char rows[16][64];
};
inline Tile tiles[8];

inline void configure(const void *from) {
  const auto *const bytes = static_cast<const uint8_t *>(from);
  for (int tile = 0; tile < 8; ++tile) {
    tiles[tile] = {};
    std::memcpy(&tiles[tile].row_bytes, bytes + 16 + 2 * tile, 2);
    tiles[tile].n_rows = bytes[48 + tile];
  }
}

inline void load_tile(int number, const void *from, int64_t stride) {
  Tile &tile = tiles[number];
  for (int row = 0; row < tile.n_rows; ++row)
    std::memcpy(tile.rows[row], static_cast<const char *>(from) + row * stride, tile.row_bytes);
}

inline void store_tile(int number, void *to, int64_t stride) {
  const Tile &tile = tiles[number];
  for (int row = 0; row < tile.n_rows; ++row)
    std::memcpy(static_cast<char *>(to) + row * stride, tile.rows[row], tile.row_bytes);
}

// Adds the products of two tiles, a group of 4 bytes at a time, to sums of 32 bits.
template <typename Sum, typename AddGroup>
void multiply_tiles(int sums, int inputs, int weights, AddGroup add_group) {
  for (int row = 0; row < tiles[sums].n_rows; ++row)
    for (int output = 0; output < tiles[sums].row_bytes / 4; ++output) {
      Sum sum;
      std::memcpy(&sum, tiles[sums].rows[row] + 4 * output, sizeof sum);
      for (int group = 0; group < tiles[inputs].row_bytes / 4; ++group)
        add_group(sum, tiles[inputs].rows[row] + 4 * group,
                  tiles[weights].rows[group] + 4 * output);
      std::memcpy(tiles[sums].rows[row] + 4 * output, &sum, sizeof sum);
    }
}

inline void multiply_bytes(int sums, int inputs, int weights) {
  multiply_tiles<int32_t>(sums, inputs, weights, [](int32_t &sum, const char *x, const char *w) {
    for (int i = 0; i < 4; ++i) sum += uint8_t(x[i]) * int8_t(w[i]);
  });
}

inline void multiply_pairs(int sums, int inputs, int weights) {
  multiply_tiles<float>(sums, inputs, weights, [](float &sum, const char *x, const char *w) {
    uint16_t left[2], right[2];
    std::memcpy(left, x, 4), std::memcpy(right, w, 4);
    for (int i = 0; i < 2; ++i) sum += float_of(left[i]) * float_of(right[i]);
  });
}

}  // namespace emulated

#define _mm256_dpbusd_avx_epi32 emulated::add_dots<__m256i>
#define _mm512_dpbusd_epi32 emulated::add_dots<__m512i>

#undef _mm512_loadu_si512
#define _mm512_loadu_si512 emulated_load
inline __m512i emulated_load(const void *from) {
  __m512i to;
  std::memcpy(&to, from, sizeof to);
  return to;
}

#define _mm512_loadu_ps(from) emulated_load_masked(0xffff, from)
#define _mm512_set1_epi32 emulated::repeated<int32_t>
#define _mm512_set1_epi16 emulated::repeated<int16_t>
#define _mm512_set1_ps(x) ((__m512)emulated::repeated<float>(x))
#define _mm512_castps_si512(x) ((__m512i)(x))
#define _mm512_abs_ps(x) emulated::each<float>(x, [](float a) { return std::abs(a); })
#define _mm512_abs_epi32(x) emulated::each<int32_t>(x, [](int32_t a) { return std::abs(a); })
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(x, n) emulated::each<int32_t>(x, [](int32_t a) { return a >> n; })
#define _mm512_max_epi32(x, y) \
  emulated::each<int32_t>(x, y, [](int32_t a, int32_t b) { return a > b ? a : b; })
#define _mm512_add_epi32(x, y) \
  emulated::each<int32_t>(x, y, [](int32_t a, int32_t b) { return a + b; })
#define _mm512_and_si512(x, y) ((x) & (y))
#define _mm512_xor_si512(x, y) ((x) ^ (y))
#define _mm512_mul_ps(x, y) ((x) * (y))

#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps emulated_load_masked
inline __m512 emulated_load_masked(uint16_t mask, const float *from) {
  emulated::Numbers<float, 16> numbers = {};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) numbers.at[i] = from[i];
  return emulated::in_register<__m512>(numbers);
}

#define _mm512_cvtps_epi32 emulated_to_integers
inline __m512i emulated_to_integers(__m512 from) {
  const auto numbers = emulated::numbers_of<float>(from);
  emulated::Numbers<int32_t, 16> to;
  for (int i = 0; i < 16; ++i)
    to.at[i] = std::abs(numbers.at[i]) < 2e9f ? int32_t(std::nearbyint(numbers.at[i])) : INT32_MIN;
  return emulated::in_register<__m512i>(to);
}

#define _mm512_cvtepi32_epi8 emulated_to_bytes
inline __m128i emulated_to_bytes(__m512i from) {
  const auto numbers = emulated::numbers_of<int32_t>(from);
  emulated::Numbers<uint8_t, 16> to;
  for (int i = 0; i < 16; ++i) to.at[i] = uint8_t(numbers.at[i]);
  return emulated::in_register<__m128i>(to);
}

#define _mm512_reduce_max_epi32 emulated_largest
inline int32_t emulated_largest(__m512i from) {
  int32_t largest = INT32_MIN;
  for (int32_t number : emulated::numbers_of<int32_t>(from).at)
    largest = number > largest ? number : largest;
  return largest;
}

#define _mm512_reduce_add_epi32 emulated_sum
inline int32_t emulated_sum(__m512i from) {
  int32_t sum = 0;
  for (int32_t number : emulated::numbers_of<int32_t>(from).at) sum += number;
  return sum;
}

// Saturates, as the instruction does: kernels must not rely on more than 16 bits.
#define _mm512_maddubs_epi16 emulated_add_pairs_of_bytes
inline __m512i emulated_add_pairs_of_bytes(__m512i a, __m512i b) {
  const auto left = emulated::numbers_of<uint8_t>(a);
  const auto right = emulated::numbers_of<int8_t>(b);
  emulated::Numbers<int16_t, 32> to;
  for (int i = 0; i < 32; ++i) {
    const int sum = left.at[2 * i] * right.at[2 * i] + left.at[2 * i + 1] * right.at[2 * i + 1];
    to.at[i] = int16_t(sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum);
  }
  return emulated::in_register<__m512i>(to);
}

#define _mm512_madd_epi16 emulated_add_pairs
inline __m512i emulated_add_pairs(__m512i a, __m512i b) {
  const auto left = emulated::numbers_of<int16_t>(a), right = emulated::numbers_of<int16_t>(b);
  emulated::Numbers<int32_t, 16> to;
  for (int i = 0; i < 16; ++i)
    to.at[i] = left.at[2 * i] * right.at[2 * i] + left.at[2 * i + 1] * right.at[2 * i + 1];
  return emulated::in_register<__m512i>(to);
}

#undef _mm_mask_storeu_epi8
#define _mm_mask_storeu_epi8(to, mask, from) \
  emulated::store_masked(reinterpret_cast<uint8_t *>(to), mask, from)
#undef _mm256_mask_storeu_epi16
#define _mm256_mask_storeu_epi16(to, mask, from) \
  emulated::store_masked(reinterpret_cast<uint16_t *>(to), mask, from)

#undef _mm512_cvtneps_pbh
#define _mm512_cvtneps_pbh emulated_to_bf16
inline __m256i emulated_to_bf16(__m512 from) {
  const auto numbers = emulated::numbers_of<float>(from);
  emulated::Numbers<uint16_t, 16> to;
  for (int i = 0; i < 16; ++i) to.at[i] = emulated::bf16_of(numbers.at[i]);
  return emulated::in_register<__m256i>(to);
}

#define _mm512_dpbf16_ps(sums, x, w) emulated_add_pairs_of_bf16(sums, (__m512i)(x), (__m512i)(w))
inline __m512 emulated_add_pairs_of_bf16(__m512 sums, __m512i a, __m512i b) {
  auto to = emulated::numbers_of<float>(sums);
  const auto left = emulated::numbers_of<uint16_t>(a), right = emulated::numbers_of<uint16_t>(b);
  for (int i = 0; i < 32; ++i)
    to.at[i / 2] += emulated::float_of(left.at[i]) * emulated::float_of(right.at[i]);
  return emulated::in_register<__m512>(to);
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbusd
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated::configure
#define _tile_release() (void)0
#define _tile_loadd emulated::load_tile
#define _tile_stored emulated::store_tile
#define _tile_dpbusd emulated::multiply_bytes
#define _tile_dpbf16ps emulated::multiply_pairs
