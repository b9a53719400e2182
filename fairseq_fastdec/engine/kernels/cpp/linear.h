// Linear layers, whatever the format of their weights.

#pragma once

#include "linear_bf16.h"
#include "linear_fp32.h"
#include "linear_int8.h"

namespace fastdec {
namespace {

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

// y [n, outputs] from what quantize has written to x; each thread computes some blocks of outputs.
INLINE void multiply_quantized(const Linear &linear, float *x, float *y, int64_t n,
                               const ThreadSlice &slice, Epilogue epilogue) {
  if (linear.weight_int8)
    multiply_int8(linear, int8_inputs_in(x, n), y, n, slice, epilogue);
  else
    multiply_bf16(linear, reinterpret_cast<uint16_t *>(x), y, n, slice, epilogue);
}

}  // namespace
}  // namespace fastdec
