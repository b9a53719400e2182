// Linear layers, whatever the format of their weights.
//
// A new format is a row of FORMATS here, a line each in quantize and multiply_quantized, and its
// products in a file such as linear_int8.h; in Python its packing (engine/kernels/packed.py) and its
// name (engine/products/precision.py).

#pragma once

#include "linear_bf16.h"
#include "linear_fp32.h"
#include "linear_int8.h"

namespace fastdec {
namespace {

constexpr Format FP32 = {0, "float32", 1, false, false};
constexpr Format BF16 = {1, "uint16", PAIR, true, false};
constexpr Format INT8 = {2, "int8", GROUP, true, true};
constexpr const Format *FORMATS[] = {&FP32, &BF16, &INT8};

static_assert(sizeof FORMATS / sizeof *FORMATS <= MOST_FORMATS, "Costs has no room for a format");

// multiply_fp32, compiled for one kind of processor.
typedef void (*MultiplyFp32)(const Linear &linear, const float *x, float *y, int64_t n,
                             const ThreadSlice &slice, Epilogue epilogue);

// How many floats lay_out gives a task that it needs as its Memory.
template <typename Memory, typename Task>
int64_t floats_laid_out(const Task &task) {
  Memory memory;
  float *const nowhere = nullptr;
  return (reinterpret_cast<uintptr_t>(lay_out(task, nowhere, &memory)) -
          reinterpret_cast<uintptr_t>(nowhere)) /
         sizeof(float);
}

// One of n tokens' inputs x [inputs], in the format that the layer multiplies.
inline void quantize(const Linear &linear, const float *x, float *to, int64_t token, int64_t n) {
  const int64_t inputs = linear.inputs;
  if (linear.format == &INT8)
    quantize_to_int8(x, inputs, int8_inputs_in(to, n), token);
  else
    round_to_bf16(x, inputs, reinterpret_cast<uint16_t *>(to) + token * padded_to_pairs(inputs));
}

// y [n, outputs] from what quantize has written to x; each thread computes some blocks of outputs.
INLINE void multiply_quantized(const Linear &linear, float *x, float *y, int64_t n,
                               const ThreadSlice &slice, Epilogue epilogue) {
  if (linear.format == &INT8)
    multiply_int8(linear, int8_inputs_in(x, n), y, n, slice, epilogue);
  else
    multiply_bf16(linear, reinterpret_cast<uint16_t *>(x), y, n, slice, epilogue);
}

}  // namespace
}  // namespace fastdec
