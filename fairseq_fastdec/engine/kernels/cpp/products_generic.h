// Products in int8 and bf16 for any processor.

#pragma once

#include <limits>

#include "products.h"

namespace fastdec {
namespace {

// Inputs have the zero point.
inline void quantize_generic(const float *x, int64_t inputs, const Int8Inputs &to, int64_t token) {
  const int64_t length = padded_to_groups(inputs);
  // The bits of NaN are the largest, so a NaN is found, and is the scale.
  int32_t size = bits_of_float(SMALLEST_INPUT);
  for (int64_t i = 0; i < inputs; ++i)
    size = std::max(size, bits_of_float(x[i]) & std::numeric_limits<int32_t>::max());
  const float largest = float_of_bits(size), steps_per_one = 127 / largest;
  uint8_t *const values = to.values + token * length;
  for (int64_t i = 0; i < inputs; ++i) {
    // Adding 1.5 * 2^23 rounds to an integer, which is in the last bits.
    const float magic = 12582912.0f;
    const int32_t rounded = bits_of_float(x[i] * steps_per_one + magic) - bits_of_float(magic);
    values[i] = uint8_t(rounded + ZERO_POINT);
  }
  std::fill(values + inputs, values + length, uint8_t(ZERO_POINT));
  to.scales[token] = largest / 127;
}

inline void multiply_int8_generic(const Linear &linear, int64_t block, const Int8Inputs &x,
                                  float *y, int64_t n, Epilogue epilogue) {
  const int64_t length = padded_to_groups(linear.inputs);
  const auto *const weight = weights_of<int8_t>(linear, block);
  for (int64_t token = 0; token < n; ++token) {
    const uint8_t *const from = x.values + token * length;
    int32_t sums[BLOCK];
    std::copy_n(linear.zero_point_compensation + block * BLOCK, BLOCK, sums);
    for (int64_t i = 0; i < length; i += GROUP)
      for (int output = 0; output < BLOCK; ++output)
        for (int place = 0; place < GROUP; ++place)
          sums[output] += from[i + place] * weight[i * BLOCK + output * GROUP + place];
    write_int8_sums<Vec4>(linear, block, sums, x.scales[token], y + token * linear.outputs,
                          epilogue);
  }
}

inline void round_generic(const float *x, int64_t inputs, uint16_t *to) {
  round_to(x, reinterpret_cast<Bf16 *>(to), inputs);
  std::fill(to + inputs, to + padded_to_pairs(inputs), uint16_t(0));
}

// A block of outputs of N tokens, in fp32: bf16 numbers are the upper halves of fp32 numbers.
template <typename Vec, int N>
INLINE void multiply_tile_widened(const Linear &linear, int64_t block, const uint16_t *x, float *y,
                                  Epilogue epilogue) {
  constexpr int PARTS = BLOCK / width<Vec>();
  const int64_t length = padded_to_pairs(linear.inputs);
  const auto *weight = weights_of<uint16_t>(linear, block);
  Vec sums[N][PARTS];
  UNROLL
  for (int n = 0; n < N; ++n)
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = load<Vec>(linear.bias + block * BLOCK + part * width<Vec>());
  for (int64_t i = 0; i < length; i += PAIR, weight += BLOCK * PAIR) {
    prefetch_ahead(weight, BLOCK * PAIR * sizeof *weight);
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const auto *const pairs = reinterpret_cast<const Bf16 *>(weight + part * width<Vec>() * PAIR);
      const TwoVecs<Vec> weights = load_two<Vec>(pairs);
      UNROLL
      for (int n = 0; n < N; ++n) {
        sums[n][part] += to_float(Bf16{x[n * length + i]}) * weights.first;
        sums[n][part] += to_float(Bf16{x[n * length + i + 1]}) * weights.second;
      }
    }
  }
  write_bf16_outputs(linear, block, sums, y, epilogue);
}

template <typename Vec>
INLINE void multiply_block_widened(const Linear &linear, int64_t block, const uint16_t *x, float *y,
                                   int64_t n, Epilogue epilogue) {
  const int64_t length = padded_to_pairs(linear.inputs);
  int64_t token = 0;
  for (; token + 2 <= n; token += 2)
    multiply_tile_widened<Vec, 2>(linear, block, x + token * length, y + token * linear.outputs,
                                  epilogue);
  if (token < n)
    multiply_tile_widened<Vec, 1>(linear, block, x + token * length, y + token * linear.outputs,
                                  epilogue);
}

inline void multiply_bf16_generic(const Linear &linear, int64_t block, const Bf16Inputs &x,
                                  float *y, int64_t n, Epilogue epilogue) {
  multiply_block_widened<Vec4>(linear, block, x, y, n, epilogue);
}

constexpr Products GENERIC_PRODUCTS = {
    quantize_generic,
    multiply_blocks<Int8Inputs, multiply_int8_generic>,
    round_generic,
    multiply_blocks<Bf16Inputs, multiply_bf16_generic>,
};

}  // namespace
}  // namespace fastdec
