// Attention of a step's tokens to their rows and sources.

#pragma once

#include <algorithm>
#include <cmath>

#include "keys_values.h"
#include "workspace.h"

namespace {

// The keys that a query sees: the first n, and of those behind them the ones on a path.
struct VisibleKeys {
  int64_t n, n_path = 0;
  const int64_t *path = nullptr;

  int64_t count() const { return n + n_path; }
  int64_t place(int64_t key) const { return key < n ? key : n + path[key - n]; }
};

// The keys and values of one head of a row or a source.
template <typename Number>
struct Head {
  const Number *keys, *values;  // [length, dim] each
  int64_t dim;
};

// The product of a query and a key that vectors have not summed up: of numbers behind the last
// whole vectors. Without volatile some products would be fused into the sum, depending on the loop.
template <typename Number>
INLINE float dot_of_rest(const float *query, const Number *key, int64_t from, int64_t dim) {
  float rest = 0;
  for (int64_t i = from; i < dim; ++i) {
    const volatile float product = query[i] * to_float(key[i]);
    rest += product;
  }
  return rest;
}

// Writes the products of a query and its keys to scores, and -infinity behind them, to the end of a
// vector. Returns the largest.
//   query [dim]: in the order of in_order_of_loads
template <typename Vec, typename Number>
INLINE float score(const float *query, const Head<Number> &head, const VisibleKeys &visible,
                   float *scores) {
  constexpr int WIDTH = width<Vec>();
  const int64_t n_keys = visible.count(), whole = head.dim / (2 * WIDTH) * (2 * WIDTH);
  Vec largest = Vec{} - INFINITY, sums[WIDTH] = {};
  for (int64_t first = 0; first < n_keys; first += WIDTH) {
    const int64_t n = std::min<int64_t>(WIDTH, n_keys - first);
    for (int64_t i = 0; i < n; ++i) {
      const Number *key = head.keys + visible.place(first + i) * head.dim;
      Vec sum = {};
      for (int64_t at = 0; at < whole; at += 2 * WIDTH) {
        const TwoVecs<Vec> some = load_two<Vec>(key + at);
        sum += load<Vec>(query + at) * some.first;
        sum += load<Vec>(query + at + WIDTH) * some.second;
      }
      sums[i] = sum;
    }
    store(reduce_each<WIDTH>(sums), scores + first);
    for (int64_t i = 0; whole < head.dim && i < n; ++i)
      scores[first + i] += dot_of_rest(
          query, head.keys + visible.place(first + i) * head.dim, whole, head.dim);
    for (int64_t i = n; i < WIDTH; ++i) scores[first + i] = -INFINITY;
    const Vec some = load<Vec>(scores + first);
    largest = some > largest ? some : largest;
  }
  return reduce_max(largest);
}

// The sum of weights[key] * values[key] over 2 * PAIRS vectors, which stay in registers.
template <typename Vec, int PAIRS, typename Number>
INLINE void sum_values(const float *weights, const Head<Number> &head, const Number *values,
                       const VisibleKeys &visible, float scale, float *context) {
  constexpr int WIDTH = width<Vec>();
  TwoVecs<Vec> sums[PAIRS] = {};
  const auto add = [&](int64_t key, const Number *value) {
    for (int pair = 0; pair < PAIRS; ++pair) {
      const TwoVecs<Vec> some = load_two<Vec>(value + pair * 2 * WIDTH);
      sums[pair].first += weights[key] * some.first;
      sums[pair].second += weights[key] * some.second;
    }
  };
  for (int64_t key = 0; key < visible.n; ++key) add(key, values + key * head.dim);
  for (int64_t key = visible.n; key < visible.count(); ++key)
    add(key, values + visible.place(key) * head.dim);
  for (int pair = 0; pair < PAIRS; ++pair) {
    sums[pair].first *= scale, sums[pair].second *= scale;
    store_two<Number>(sums[pair], context + pair * 2 * WIDTH);
  }
}

// One query over the keys of a head. Keys are summed up in the order in which their tokens follow
// each other, so the sums are the same whatever else lies between them.
template <typename Vec, typename Number>
INLINE void attend(const float *query, const Head<Number> &head, const VisibleKeys &visible,
                   const Workspace &own, float *context) {
  constexpr int WIDTH = width<Vec>();
  const int64_t n_keys = visible.count();
  float *weights = own.attention_weights;
  const float largest =
      score<Vec>(in_order_of_loads<Vec, Number>(query, head.dim, own.query), head, visible, weights);
  Vec sums = {};
  for (int64_t key = 0; key < n_keys; key += WIDTH) {
    const Vec some = exponential(load<Vec>(weights + key) - largest);
    store(some, weights + key);
    sums += some;
  }
  const float sum = reduce_add(sums);
  int64_t i = 0;
  for (; i + 4 * WIDTH <= head.dim; i += 4 * WIDTH)
    sum_values<Vec, 2>(weights, head, head.values + i, visible, 1 / sum, context + i);
  for (; i + 2 * WIDTH <= head.dim; i += 2 * WIDTH)
    sum_values<Vec, 1>(weights, head, head.values + i, visible, 1 / sum, context + i);
  for (; i < head.dim; ++i) {
    float rest = 0;
    for (int64_t key = 0; key < n_keys; ++key) {
      // Without volatile some products would be fused into the sum, depending on the loop.
      const volatile float product =
          weights[key] * to_float(head.values[visible.place(key) * head.dim + i]);
      rest += product;
    }
    context[i] = rest / sum;
  }
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

// Attends to rows with the queries, keys and values of the new tokens; writes the keys and values
// to the cache first, so that a token's own are rounded as those of other steps are.
template <typename Vec, typename Number>
INLINE void self_attention(const Step &step, int64_t layer, const Workspace &own) {
  const Model &model = step.model;
  const int64_t dim = model.dim, head_dim = model.head_dim, n_heads = model.n_heads;
  const int64_t n_pairs = step.n_rows * n_heads;
  for (int64_t pair = own.number; pair < n_pairs; pair += own.count) {
    const int64_t row = pair / n_heads, head = pair % n_heads, past = step.past[row];
    Number *keys = keys_at<Number>(step.rows, layer, step.first_slot + row, head);
    Number *values = keys + step.rows.part;
    const float *qkv = own.queries + row * step.n_new * 3 * dim + head * head_dim;
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t place = (past + token) * head_dim;
      round_to(qkv + token * 3 * dim + dim, keys + place, head_dim);
      round_to(qkv + token * 3 * dim + 2 * dim, values + place, head_dim);
    }
    int64_t path[MAX_TREE_DEPTH];
    for (int64_t token = 0; token < step.n_new; ++token)
      attend<Vec, Number>(qkv + token * 3 * dim, {keys, values, head_dim},
                          visible_to(step, row, token, path), own,
                          own.context + (row * step.n_new + token) * dim + head * head_dim);
  }
}

template <typename Vec, typename Number>
INLINE void cross_attention(const Step &step, int64_t layer, const Workspace &own) {
  const Model &model = step.model;
  const int64_t dim = model.dim, head_dim = model.head_dim, n_heads = model.n_heads;
  const int64_t n_pairs = step.n_rows * n_heads;
  for (int64_t pair = own.number; pair < n_pairs; pair += own.count) {
    const int64_t row = pair / n_heads, head = pair % n_heads, source = step.row_source[row];
    const Number *keys = keys_at<Number>(step.sources, layer, source, head);
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t place = (row * step.n_new + token) * dim + head * head_dim;
      attend<Vec, Number>(own.queries + place, {keys, keys + step.sources.part, head_dim},
                          {step.source_lengths[source]}, own, own.context + place);
    }
  }
}

enum class Keys { OF_ROWS, OF_SOURCES };

// With vectors of which a head has whole pairs, if there are any so narrow.
template <typename Vec, Keys KEYS, typename Number>
INLINE void attend_in_vectors(const Step &step, int64_t layer, const Workspace &own) {
  if constexpr (width<Vec>() > width<Vec4>())
    if (step.model.head_dim % (2 * width<Vec>()))
      return attend_in_vectors<typename HalfOf<Vec>::Vec, KEYS, Number>(step, layer, own);
  if constexpr (KEYS == Keys::OF_ROWS)
    self_attention<Vec, Number>(step, layer, own);
  else
    cross_attention<Vec, Number>(step, layer, own);
}

template <typename Vec, Keys KEYS>
INLINE void attend_to_keys(const Step &step, int64_t layer, const Workspace &own) {
  if ((KEYS == Keys::OF_ROWS ? step.rows : step.sources).is_bf16)
    attend_in_vectors<Vec, KEYS, Bf16>(step, layer, own);
  else
    attend_in_vectors<Vec, KEYS, float>(step, layer, own);
}

}  // namespace
