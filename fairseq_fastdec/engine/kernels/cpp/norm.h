// Layer normalisation over the last dimension.

#pragma once

#include <cmath>

#include "simd.h"

namespace fastdec {

// Not applied if the weight is null.
struct Norm {
  const float *weight, *bias;  // [dim]
  float epsilon;
};

namespace {

template <typename Vec>
INLINE void normalize(const Norm &norm, const float *x, float *y, int64_t n) {
  const float center = mean<Vec>(x, n);
  const float scale = 1 / std::sqrt(sum_of_squares<Vec>(x, n, center) / n + norm.epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * scale * norm.weight[i] + norm.bias[i];
}

}  // namespace
}  // namespace fastdec
