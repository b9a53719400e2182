// Linear layers with weights in any format.
//
// A new format needs an entry of FORMATS, a case in quantize and multiply_quantized, and its
// products for each instruction set; and in Python its packing (packing/packed.py) and its name
// (packing/precision.py).

#pragma once

#include "linear_fp32.h"
#include "products.h"

namespace fastdec {

inline constexpr Format FP32 = {0, "float32", 1, false, false};
inline constexpr Format BF16 = {1, "uint16", PAIR, true, false};
inline constexpr Format INT8 = {2, "int8", GROUP, true, true};
inline constexpr const Format *FORMATS[] = {&FP32, &BF16, &INT8};

static_assert(sizeof FORMATS / sizeof *FORMATS <= MOST_FORMATS, "Costs has no room for a format");

// multiply_fp32, compiled for one width of vectors.
typedef void (*MultiplyFp32)(const Linear &linear, const float *x, float *y, int64_t n,
                             const ThreadSlice &slice, Epilogue epilogue);

namespace {

// The number of floats that lay_out allocates for a task's Memory.
template <typename Memory, typename Task>
int64_t floats_laid_out(const Task &task) {
  Memory memory;
  float *const nowhere = nullptr;
  return (reinterpret_cast<uintptr_t>(lay_out(task, nowhere, &memory)) -
          reinterpret_cast<uintptr_t>(nowhere)) /
         sizeof(float);
}

// Converts the inputs x [inputs] of one of n tokens to the format of the layer's products.
inline void quantize(const Linear &linear, const float *x, float *to, int64_t token, int64_t n) {
  const int64_t inputs = linear.inputs;
  const Products &products = instruction_set->products;
  if (linear.format == &INT8)
    products.quantize(x, inputs, int8_inputs_in(to, n, inputs), token);
  else
    products.round(x, inputs, reinterpret_cast<uint16_t *>(to) + token * padded_to_pairs(inputs));
}

// y [n, outputs] from the inputs x that quantize has written; threads share the blocks of outputs.
INLINE void multiply_quantized(const Linear &linear, float *x, float *y, int64_t n,
                               const ThreadSlice &slice, Epilogue epilogue) {
  const Products &products = instruction_set->products;
  if (linear.format == &INT8)
    products.multiply_int8(linear, int8_inputs_in(x, n, linear.inputs), y, n, slice, epilogue);
  else
    products.multiply_bf16(linear, reinterpret_cast<uint16_t *>(x), y, n, slice, epilogue);
}

}  // namespace
}  // namespace fastdec
