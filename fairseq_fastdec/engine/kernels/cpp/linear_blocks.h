// All linear layers share the blocks of outputs, and the epilogue that follows their sums.

#pragma once

#include "simd.h"
#include "threads.h"

namespace {

// An epilogue uses the sums: y = sum, y += sum, y = relu(sum), y = gelu(sum), ... Python knows their
// numbers as EPILOGUES in structures.py.
enum class Epilogue { STORE, ADD, RELU, GELU, GELU_ACCURATE, TANH };

template <typename Vec, typename Function>
INLINE void apply_to_block(float *values, const Function &function) {
  for (int i = 0; i < BLOCK; i += width<Vec>()) store(function(load<Vec>(values + i)), values + i);
}

// Writes the first n of a block's values to y.
template <typename Vec>
INLINE void apply_epilogue(Epilogue epilogue, float *values, float *y, int64_t n) {
  if (epilogue == Epilogue::GELU) apply_to_block<Vec>(values, gelu<Vec>);
  if (epilogue == Epilogue::GELU_ACCURATE) apply_to_block<Vec>(values, gelu_by_tangent<Vec>);
  if (epilogue == Epilogue::TANH) apply_to_block<Vec>(values, hyperbolic_tangent<Vec>);
  for (int64_t i = 0; i < n; ++i) {
    float value = values[i];
    if (epilogue == Epilogue::ADD) value += y[i];
    if (epilogue == Epilogue::RELU) value = std::max(value, 0.0f);
    y[i] = value;
  }
}

INLINE int64_t outputs_of(const Linear &linear, int64_t block) {
  return std::min<int64_t>(BLOCK, linear.outputs - block * BLOCK);
}

// The first of the blocks that a thread computes; its last one lies before the next thread's first.
INLINE int64_t first_block(const Linear &linear, int64_t thread, const ThreadSlice &slice) {
  return (linear.outputs + BLOCK - 1) / BLOCK * thread / slice.count;
}

}  // namespace
