// Products whose inputs are brought into fewer bits first, in a place that all threads see.

#pragma once

#include "linear_int8.h"
#include "linear_bf16.h"

namespace {

// Floats that hold the inputs of n tokens in whatever form.
INLINE int64_t size_of_narrow(int64_t n, int64_t inputs) {
  return n + n * length_of_codes(inputs) / 2;
}

// A token's inputs x [inputs], in the form that the layer multiplies; n tokens in all.
INLINE void narrow(const Linear &linear, const float *x, float *to, int64_t token, int64_t n) {
  const int64_t inputs = linear.inputs;
  if (linear.codes)
    quantize(x, inputs, codes_in(to, n), token);
  else
    halve(x, inputs, reinterpret_cast<uint16_t *>(to) + token * length_of_halves(inputs));
}

// Of those, y [n, outputs]; each thread computes some of the outputs.
INLINE void multiply_narrow(const Linear &linear, float *x, float *y, int64_t n,
                            const Share &share, Then then) {
  if (linear.codes)
    multiply_codes(linear, codes_in(x, n), y, n, share, then);
  else
    multiply_halves(linear, reinterpret_cast<uint16_t *>(x), y, n, share, then);
}

}  // namespace
