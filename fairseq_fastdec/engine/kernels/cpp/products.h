// Instruction sets: the interface of their products in int8 and bf16, and what these share.
// products_generic.h defines what each must compute.

#pragma once

#include "linear_blocks.h"
#include "rounded_inputs.h"

namespace fastdec {

// The inputs of n tokens in bf16: [n, padded_to_pairs(inputs)].
typedef const uint16_t *Bf16Inputs;

// Like multiply_fp32, from rounded inputs.
template <typename Inputs>
using Multiply = void (*)(const Linear &linear, const Inputs &x, float *y, int64_t n,
                          const ThreadSlice &slice, Epilogue epilogue);

// The products of an instruction set.
struct Products {
  // Quantises a token's inputs x [inputs] to integers from -127 to 127.
  void (*quantize)(const float *x, int64_t inputs, const Int8Inputs &to, int64_t token);
  Multiply<Int8Inputs> multiply_int8;
  // Rounds a token's inputs x [inputs]; to [padded_to_pairs(inputs)].
  void (*round)(const float *x, int64_t inputs, uint16_t *to);
  Multiply<Bf16Inputs> multiply_bf16;
};

// The kernels of an instruction set.
struct InstructionSet {
  const char *name;
  bool (*is_available)();
  int vector_width;  // in floats, of the kernels of kernels_of_width.h
  Products products;
};

// The one in use.
extern const InstructionSet *instruction_set;

namespace {

template <typename Inputs>
using MultiplyBlock = void (*)(const Linear &linear, int64_t block, const Inputs &x, float *y,
                               int64_t n, Epilogue epilogue);

// Calls MULTIPLY_BLOCK for each block of a thread.
template <typename Inputs, MultiplyBlock<Inputs> MULTIPLY_BLOCK>
void multiply_blocks(const Linear &linear, const Inputs &x, float *y, int64_t n,
                     const ThreadSlice &slice, Epilogue epilogue) {
  const int64_t end = first_block(linear, slice.number + 1, slice);
  for (int64_t block = first_block(linear, slice.number, slice); block < end; ++block)
    MULTIPLY_BLOCK(linear, block, x, y, n, epilogue);
}

// Writes the outputs of a tile: N tokens and a block. y [N, outputs] begins with the first token.
//   scales: [N], of the inputs
template <typename Vec, int N, int PARTS>
INLINE void write_int8_outputs(const Linear &linear, int64_t block,
                               const typename IntegersOf<Vec>::Vec (&sums)[N][PARTS],
                               const float *scales, float *y, Epilogue epilogue) {
  UNROLL
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
      const int64_t output = block * BLOCK + part * width<Vec>();
      const Vec scale = load<Vec>(linear.scales + output) * scales[n];
      const Vec some = __builtin_convertvector(sums[n][part], Vec);
      store(some * scale + load<Vec>(linear.bias + output), values + part * width<Vec>());
    }
    apply_epilogue<Vec>(epilogue, values, y + n * linear.outputs + block * BLOCK,
                        outputs_of(linear, block));
  }
}

// The same for one token, from sums [BLOCK] in memory.
template <typename Vec>
INLINE void write_int8_sums(const Linear &linear, int64_t block, const int32_t *sums, float scale,
                            float *y, Epilogue epilogue) {
  typename IntegersOf<Vec>::Vec parts[1][BLOCK / width<Vec>()];
  std::memcpy(parts, sums, sizeof parts);
  write_int8_outputs<Vec>(linear, block, parts, &scale, y, epilogue);
}

// Like write_int8_outputs, in bf16.
template <typename Vec, int N, int PARTS>
INLINE void write_bf16_outputs(const Linear &linear, int64_t block, const Vec (&sums)[N][PARTS],
                               float *y, Epilogue epilogue) {
  UNROLL
  for (int n = 0; n < N; ++n) {
    float values[BLOCK];
    UNROLL
    for (int part = 0; part < PARTS; ++part)
      store(sums[n][part], values + part * width<Vec>());
    apply_epilogue<Vec>(epilogue, values, y + n * linear.outputs + block * BLOCK,
                        outputs_of(linear, block));
  }
}

// The packed weights of a block, in int8 or bf16.
template <typename Number>
INLINE const Number *weights_of(const Linear &linear, int64_t block) {
  const int64_t size = linear.n_groups() * linear.format->group * BLOCK;
  return static_cast<const Number *>(linear.weight) + block * size;
}

// Four inputs in int8, or two in bf16, as an integer that instructions repeat.
template <typename Number>
INLINE int32_t group_at(const Number *from) {
  int32_t group;
  std::memcpy(&group, from, sizeof group);
  return group;
}

}  // namespace
}  // namespace fastdec
