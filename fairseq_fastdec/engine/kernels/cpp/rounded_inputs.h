// The inputs of linear layers in fewer bits: quantised to int8, or rounded to bf16.

#pragma once

#include "keys_values.h"

namespace fastdec {

// The inputs of n tokens in int8. Each instruction set writes them as its products read them:
//   with the zero point   values from 1 to 255
//   with signs            absolute values up to 127, and signs
//   as they are           values from -127 to 127
struct Int8Inputs {
  float *scales;      // [n]
  int32_t *negative;  // [n], with signs: the sums of the absolute values of negative inputs
  uint8_t *values;    // [n, padded_to_groups(inputs)]
  uint8_t *signs;     // [n, padded_to_groups(inputs)], 255 for negative inputs, otherwise 0
};

namespace {

// The quantised value of an input of 0, where instructions multiply unsigned inputs by signed
// weights.
constexpr int ZERO_POINT = 128;
// Avoids division by zero for tokens of zeros.
constexpr float SMALLEST_INPUT = 1e-30f;

INLINE int64_t padded_to_groups(int64_t inputs) { return (inputs + GROUP - 1) / GROUP * GROUP; }

INLINE int64_t padded_to_pairs(int64_t inputs) { return (inputs + PAIR - 1) / PAIR * PAIR; }

// The number of floats for the inputs of n tokens in any format: at most 2 bytes per input, and two
// numbers per token.
INLINE int64_t quantized_size(int64_t n, int64_t inputs) {
  return 2 * n + n * padded_to_groups(inputs) / 2;
}

INLINE Int8Inputs int8_inputs_in(float *memory, int64_t n, int64_t inputs) {
  auto *const values = reinterpret_cast<uint8_t *>(memory + 2 * n);
  return {memory, reinterpret_cast<int32_t *>(memory + n), values,
          values + n * padded_to_groups(inputs)};
}

INLINE int32_t bits_of_float(float number) {
  int32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

INLINE float float_of_bits(int32_t bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

}  // namespace
}  // namespace fastdec
