// The simpler simple recurrent unit of Marian's decoders (Kim et al. 2019), in place of
// self-attention.

#pragma once

#include "keys_values.h"
#include "workspace.h"

namespace fastdec {
namespace {

// The state after a token: forget * before + (1 - forget) * input, and its use: x += relu(state).
template <typename Vec>
INLINE void read_token(const float *input, const float *gate, const float *before, float *after,
                       float *x) {
  const Vec forget = sigmoid(load<Vec>(gate));
  const Vec state = forget * load<Vec>(before) + (1.0f - forget) * load<Vec>(input);
  store(state, after);
  store(load<Vec>(x) + (state < 0 ? Vec{} : state), x);
}

// Like read_token, for the last n channels, fewer than a vector.
template <typename Vec>
INLINE void read_token_for(int64_t n, const float *input, const float *gate, const float *before,
                           float *after, float *x) {
  float padded[5][width<Vec>()] = {};
  const float *const from[] = {input, gate, before, after, x};
  for (int part : {0, 1, 2, 4}) std::copy_n(from[part], n, padded[part]);
  read_token<Vec>(padded[0], padded[1], padded[2], padded[3], padded[4]);
  std::copy_n(padded[3], n, after);
  std::copy_n(padded[4], n, x);
}

// The state [dim] after a token of a row.
INLINE float *state_after(const Step &step, int64_t layer, int64_t row, int64_t token) {
  const int64_t slot = step.slot_of_token(row, token);
  return keys_at<float>(step.rows, layer, slot, 0) + token * step.network.dim;
}

// Runs the unit over the new tokens of all rows, and adds its outputs to x. The states after all
// tokens are kept, so that a row can go back to any of them. Threads share the channels.
template <typename Vec>
INLINE void run_recurrence(const Step &step, int64_t layer, const Workspace &own) {
  constexpr int WIDTH = width<Vec>();
  const int64_t dim = step.network.dim, n_vectors = (dim + WIDTH - 1) / WIDTH;
  const int64_t begin = n_vectors * own.number / own.count * WIDTH;
  const int64_t end = std::min(dim, n_vectors * (own.number + 1) / own.count * WIDTH);
  float zeros[WIDTH] = {};
  for (int64_t row = 0; row < step.n_rows; ++row) {
    for (int64_t token = 0; token < step.n_new(row); ++token) {
      const int64_t at = step.begins[row] + token, place = step.past[row] + token;
      const float *const input = own.queries + at * 2 * dim;
      float *const after = state_after(step, layer, row, place), *const x = own.x + at * dim;
      const float *const last = place ? state_after(step, layer, row, place - 1) : nullptr;
      for (int64_t i = begin; i < end; i += WIDTH) {
        const float *const before = last ? last + i : zeros;
        if (end - i >= WIDTH)
          read_token<Vec>(input + i, input + dim + i, before, after + i, x + i);
        else
          read_token_for<Vec>(end - i, input + i, input + dim + i, before, after + i, x + i);
      }
    }
  }
}

}  // namespace
}  // namespace fastdec
