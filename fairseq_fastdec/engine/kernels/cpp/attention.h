// Attention of a step's tokens to their rows and sources.

#pragma once

#include <algorithm>
#include <cmath>

#include "workspace.h"

namespace {

// The keys that a query sees: the first n, and of those behind them the ones on a path.
struct VisibleKeys {
  int64_t n, n_path = 0;
  const int64_t *path = nullptr;

  int64_t count() const { return n + n_path; }
  int64_t place(int64_t key) const { return key < n ? key : n + path[key - n]; }
};

// The sum of weights[key] * values[key] over PARTS vectors, which stay in registers.
template <typename Vec, int PARTS>
INLINE void sum_values(const float *weights, const float *values, const VisibleKeys &visible,
                       int64_t head_dim, float scale, float *context) {
  Vec sums[PARTS] = {};
  const auto add = [&](int64_t key, const float *value) {
    for (int part = 0; part < PARTS; ++part)
      sums[part] += weights[key] * load<Vec>(value + part * width<Vec>());
  };
  for (int64_t key = 0; key < visible.n; ++key) add(key, values + key * head_dim);
  for (int64_t key = visible.n; key < visible.count(); ++key)
    add(key, values + visible.place(key) * head_dim);
  for (int part = 0; part < PARTS; ++part)
    store(sums[part] * scale, context + part * width<Vec>());
}

// One query over the keys of a head. Keys are summed up in the order in which their tokens follow
// each other, so the sums are the same whatever else lies between them.
template <typename Vec>
INLINE void attend(const float *query, const float *keys, const float *values,
                   const VisibleKeys &visible, int64_t head_dim, float *weights, float *context) {
  constexpr int WIDTH = width<Vec>();
  const int64_t n_keys = visible.count();
  float largest = -INFINITY, sum = 0;
  for (int64_t key = 0; key < n_keys; ++key)
    largest = std::max(
        largest, weights[key] = dot<Vec>(query, keys + visible.place(key) * head_dim, head_dim));
  for (int64_t key = n_keys; key % WIDTH; ++key) weights[key] = -INFINITY;
  for (int64_t key = 0; key < n_keys; key += WIDTH) {
    const Vec some = exponential(load<Vec>(weights + key) - largest);
    store(some, weights + key);
    sum += reduce_add(some);
  }
  int64_t i = 0;
  for (; i + 4 * WIDTH <= head_dim; i += 4 * WIDTH)
    sum_values<Vec, 4>(weights, values + i, visible, head_dim, 1 / sum, context + i);
  for (; i + WIDTH <= head_dim; i += WIDTH)
    sum_values<Vec, 1>(weights, values + i, visible, head_dim, 1 / sum, context + i);
  for (; i + 4 <= head_dim; i += 4)
    sum_values<Vec4, 1>(weights, values + i, visible, head_dim, 1 / sum, context + i);
  for (; i < head_dim; ++i) {
    float rest = 0;
    for (int64_t key = 0; key < n_keys; ++key) {
      // Without volatile some products would be fused into the sum, depending on the loop.
      const volatile float product = weights[key] * values[visible.place(key) * head_dim + i];
      rest += product;
    }
    context[i] = rest / sum;
  }
}

INLINE float *keys_at(const Cache &cache, int64_t layer, int64_t slot, int64_t head) {
  return cache.data + layer * cache.layer + slot * cache.slot + head * cache.head;
}

// Writes the tokens of a tree from its root to one of them to path; returns how many they are.
INLINE int64_t path_to(const Step &step, int64_t row, int64_t token, int64_t *path) {
  const int64_t *parents = step.parents + row * step.n_new;
  int64_t n = 0;
  for (int64_t at = token; at >= 0; at = parents[at]) path[n++] = at;
  std::reverse(path, path + n);
  return n;
}

// The keys of its row that a new token sees.
//   path [MAX_TREE_DEPTH]: memory for the token's path in a tree
INLINE VisibleKeys visible_to(const Step &step, int64_t row, int64_t token, int64_t *path) {
  const int64_t per_step = step.model.tokens_per_step;
  if (!per_step) return {step.source_lengths[step.row_source[row]]};
  if (!step.parents) return {step.past[row] + (token / per_step + 1) * per_step};
  return {step.past[row], path_to(step, row, token, path), path};
}

// Reads queries, keys and values of the new tokens; writes keys and values to the cache.
template <typename Vec>
INLINE void self_attention(const Step &step, int64_t layer, const Workspace &own) {
  const Model &model = step.model;
  const int64_t dim = model.dim, head_dim = model.head_dim, n_heads = model.n_heads;
  const int64_t n_pairs = step.n_rows * n_heads;
  for (int64_t pair = own.number; pair < n_pairs; pair += own.count) {
    const int64_t row = pair / n_heads, head = pair % n_heads, past = step.past[row];
    float *keys = keys_at(step.rows, layer, step.first_slot + row, head);
    float *values = keys + step.rows.part;
    const float *qkv = own.queries + row * step.n_new * 3 * dim + head * head_dim;
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t place = (past + token) * head_dim;
      std::memcpy(keys + place, qkv + token * 3 * dim + dim, head_dim * sizeof(float));
      std::memcpy(values + place, qkv + token * 3 * dim + 2 * dim, head_dim * sizeof(float));
    }
    int64_t path[MAX_TREE_DEPTH];
    for (int64_t token = 0; token < step.n_new; ++token)
      attend<Vec>(qkv + token * 3 * dim, keys, values, visible_to(step, row, token, path), head_dim,
                  own.attention_weights,
                  own.context + (row * step.n_new + token) * dim + head * head_dim);
  }
}

template <typename Vec>
INLINE void cross_attention(const Step &step, int64_t layer, const Workspace &own) {
  const Model &model = step.model;
  const int64_t dim = model.dim, head_dim = model.head_dim, n_heads = model.n_heads;
  const int64_t n_pairs = step.n_rows * n_heads;
  for (int64_t pair = own.number; pair < n_pairs; pair += own.count) {
    const int64_t row = pair / n_heads, head = pair % n_heads, source = step.row_source[row];
    const float *keys = keys_at(step.sources, layer, source, head);
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t place = (row * step.n_new + token) * dim + head * head_dim;
      attend<Vec>(own.queries + place, keys, keys + step.sources.part,
                  {step.source_lengths[source]}, head_dim, own.attention_weights,
                  own.context + place);
    }
  }
}

}  // namespace
