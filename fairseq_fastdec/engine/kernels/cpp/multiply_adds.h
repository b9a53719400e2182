// Counts multiply-adds, for the FLOPs that papers report.

#pragma once

#include <atomic>

#include "attention.h"

namespace fastdec {
namespace {

// The number since the library was loaded. Calls may be concurrent.
std::atomic<int64_t> multiply_adds{0};

INLINE int64_t multiply_adds_of(const Linear &linear, int64_t n) {
  return n * linear.inputs * linear.outputs;
}

// The number of row keys that the new tokens of a step see, in total.
INLINE int64_t row_keys_seen(const Step &step) {
  int64_t seen = 0;
  for (int64_t row = 0; row < step.n_rows; ++row)
    for (int64_t token = 0; token < step.n_new(row); ++token)
      seen += n_visible_to(step, row, token);
  return seen;
}

// The number of source keys that the new tokens of a step see, in total.
INLINE int64_t source_keys_seen(const Step &step) {
  int64_t seen = 0;
  for (int64_t row = 0; row < step.n_rows; ++row)
    seen += step.n_new(row) * step.source_lengths[step.row_source[row]];
  return seen;
}

// Embeddings, norms and activations are not counted.
INLINE int64_t multiply_adds_of(const Step &step) {
  const Network &network = step.network;
  if (!network.n_layers) return 0;
  // All layers have the same sizes.
  const Layer &layer = network.layers[0];
  const int64_t n = step.n();
  int64_t of_layer = network.is_recurrent() ? 0 : 2 * network.dim * row_keys_seen(step);
  for (const Linear *linear :
       {&layer.recurrence, &layer.self_qkv, &layer.self_out, &layer.fc1, &layer.fc2})
    of_layer += multiply_adds_of(*linear, n);
  if (layer.cross_query.outputs) {
    of_layer += 2 * network.dim * source_keys_seen(step);
    for (const Linear *linear : {&layer.cross_query, &layer.cross_out})
      of_layer += multiply_adds_of(*linear, n);
  }
  return network.n_layers * of_layer;
}

INLINE int64_t multiply_adds_of(const Product &product) {
  return multiply_adds_of(product.linear, product.n);
}

INLINE int64_t multiply_adds_of(const BestTokens &task) {
  return multiply_adds_of(task.linear, task.n);
}

INLINE int64_t multiply_adds_of(const Heads &task) {
  int64_t sum = multiply_adds_of(task.hidden, task.n);
  for (int64_t output = 0; output < task.n_outputs; ++output)
    sum += multiply_adds_of(task.outputs[output], task.n);
  return sum;
}

INLINE int64_t multiply_adds_of(const SequentialHeads &heads) {
  const Step &step = heads.step;
  const int64_t n = step.n();
  int64_t sum = heads.from_features ? multiply_adds_of(heads.begin, n) : 0;
  for (const Linear *linear : {&heads.token, &heads.query, &heads.source, &heads.fc1, &heads.fc2,
                               &heads.narrow})
    sum += multiply_adds_of(*linear, n);
  return sum + 2 * step.network.dim * source_keys_seen(step);
}

template <typename Task>
INLINE void count_multiply_adds(const Task &task) {
  multiply_adds.fetch_add(multiply_adds_of(task), std::memory_order_relaxed);
}

}  // namespace
}  // namespace fastdec
