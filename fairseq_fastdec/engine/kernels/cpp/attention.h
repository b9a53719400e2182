// Attention of a step's tokens to their rows and sources.

#pragma once

#include <algorithm>
#include <cmath>

#include "keys_values.h"
#include "workspace.h"

namespace fastdec {

// Up to MOST_QUERIES tokens and the head that they attend to. Each token sees at least the keys
// that the previous ones see.
struct Attention {
  const void *keys, *values;  // [length, dim] each
  // [length], in which slot each key is, if `keys` and `values` are those of slot 0; null: they are
  // in one slot. `slot` is the stride between slots.
  const int32_t *slots;
  int64_t slot;
  int64_t is_bf16, dim;
  int64_t n;  // tokens
  const float *queries;
  float *contexts;  // the results
  int64_t query_step, context_step;  // strides between tokens
  int64_t n_visible[MOST_QUERIES];  // each token sees this number of first keys
  float *probabilities;      // of the keys of each token; null: not needed
  int64_t probability_step;  // the stride between tokens
};

// attend_to_head, compiled for one width of vectors.
typedef void (*Attend)(const Attention &task, const Workspace &own);

namespace {

// The keys and values of one head of a row or a source, see Attention.
template <typename Number>
struct Head {
  const Number *keys, *values;
  const int32_t *slots;
  int64_t slot, dim;

  // Where a key begins after `keys`, and its value after `values`.
  int64_t place_of(int64_t key) const { return (slots ? slots[key] * slot : 0) + key * dim; }
};

// The dot product of a query and a key for the numbers after the last whole vectors. volatile keeps
// the compiler from fusing some of the products into the sum, depending on the loop.
template <typename Number>
INLINE float dot_of_rest(const float *query, const Number *key, int64_t from, int64_t dim) {
  float rest = 0;
  for (int64_t i = from; i < dim; ++i) {
    const volatile float product = query[i] * to_float(key[i]);
    rest += product;
  }
  return rest;
}

// N tokens of an Attention.
template <typename Number, int N>
struct Queries {
  Head<Number> head;
  const int64_t *n_visible;  // [N]
  const float *query[N];
  float *context[N];
  float *probabilities[N];  // of the keys; null: not needed
};

// Multiplies the queries with up to WIDTH keys from `first` on. products[t][i] is a vector of
// partial sums of query t and the i-th key; with any width of vectors, each of the N_LANES partial
// sums gets the same numbers.
//   queries: in the order of in_order_of_loads
template <typename Vec, int N_LANES, typename Number, int N>
INLINE void multiply_keys(const Queries<Number, N> &task, const float *const (&queries)[N],
                          int64_t first, int64_t whole, Vec (&products)[N][width<Vec>()]) {
  constexpr int WIDTH = width<Vec>(), N_PARTS = N_LANES / WIDTH;
  constexpr bool in_order = std::is_same_v<Number, float>;
  const int64_t n = std::min<int64_t>(WIDTH, task.n_visible[N - 1] - first);
  for (int64_t i = 0; i < n; ++i) {
    const Number *key = task.head.keys + task.head.place_of(first + i);
    Vec sums[N][N_PARTS] = {};
    for (int64_t at = 0; at < whole; at += 2 * N_LANES) {
      UNROLL
      for (int pair = 0; pair < N_PARTS; ++pair) {
        const int64_t place = at + pair * 2 * WIDTH;
        const TwoVecs<Vec> some = load_two<Vec>(key + place);
        // In fp32, a pair is the next two vectors; in bf16, both have numbers of the same lanes.
        const int first_part = in_order ? 2 * pair % N_PARTS : pair;
        const int second_part = in_order ? (2 * pair + 1) % N_PARTS : pair;
        UNROLL
        for (int t = 0; t < N; ++t) {
          sums[t][first_part] += load<Vec>(queries[t] + place) * some.first;
          sums[t][second_part] += load<Vec>(queries[t] + place + WIDTH) * some.second;
        }
      }
    }
    UNROLL
    for (int t = 0; t < N; ++t) products[t][i] = fold<N_PARTS>(sums[t]);
  }
}

// The dot products of n keys for the numbers after the last whole vectors.
template <typename Vec, typename Number, int N>
INLINE Vec products_of_rest(const Queries<Number, N> &task, const float *query, int64_t first,
                            int64_t n, int64_t whole) {
  float rest[width<Vec>()] = {};
  for (int64_t i = 0; i < n; ++i)
    rest[i] = dot_of_rest(query, task.head.keys + task.head.place_of(first + i), whole,
                          task.head.dim);
  return load<Vec>(rest);
}

// Writes the dot products of queries and keys to scores, padded with -infinity to whole vectors.
// The maximum of largest[t] is the largest score of query t.
//   scores: [MOST_QUERIES, stride]
template <typename Vec, int N_LANES, typename Number, int N>
INLINE void score(const Queries<Number, N> &task, const float *const (&queries)[N], float *scores,
                  int64_t stride, Vec (&largest)[N]) {
  constexpr int WIDTH = width<Vec>();
  const Head<Number> &head = task.head;
  const int64_t whole = head.dim / (2 * N_LANES) * (2 * N_LANES);
  Vec products[N][WIDTH];  // uninitialised: filling it would take as long as some keys
  UNROLL
  for (int t = 0; t < N; ++t) largest[t] = Vec{} - INFINITY;
  for (int64_t first = 0; first < task.n_visible[N - 1]; first += WIDTH) {
    multiply_keys<Vec, N_LANES>(task, queries, first, whole, products);
    UNROLL
    for (int t = 0; t < N; ++t) {
      const int64_t n = std::min<int64_t>(WIDTH, task.n_visible[t] - first);
      if (n <= 0) continue;
      // In a register: loading a vector just after writing its elements would stall.
      Vec some = first_numbers(reduce_each<WIDTH>(products[t]), n, -INFINITY);
      if (whole < head.dim) some += products_of_rest<Vec>(task, queries[t], first, n, whole);
      store(some, scores + t * stride + first);
      largest[t] = some > largest[t] ? some : largest[t];
    }
  }
}

// Replaces scores [n_keys] by exp(score - largest), padded with 0; returns the sum.
template <typename Vec>
INLINE float take_powers(float *scores, int64_t n_keys, float largest) {
  Vec sums[vectors_of_lanes<Vec>()] = {};
  for (int64_t key = 0; key < n_keys;)
    for (Vec &part : sums) {
      if (key >= n_keys) break;
      const Vec some = exponential(load<Vec>(scores + key) - largest);
      store(some, scores + key);
      part += some;
      key += width<Vec>();
    }
  return total(sums);
}

// The scaled sums of weights[key] * values[key] for 2 * PAIRS vectors from number `at` on, which
// stay in registers.
//   weights: [MOST_QUERIES, stride]
template <typename Vec, int PAIRS, typename Number, int N>
INLINE void sum_values(const Queries<Number, N> &task, const float *weights, int64_t stride,
                       int64_t at, const float (&scales)[N]) {
  constexpr int WIDTH = width<Vec>();
  const Head<Number> &head = task.head;
  TwoVecs<Vec> sums[N][PAIRS] = {};
  const auto add = [&](int t, float weight, int pair, const TwoVecs<Vec> &some) {
    sums[t][pair].first += weight * some.first;
    sums[t][pair].second += weight * some.second;
  };
  const int64_t n_shared = task.n_visible[0];
  for (int64_t key = 0; key < n_shared; ++key) {
    const Number *value = head.values + head.place_of(key) + at;
    UNROLL
    for (int pair = 0; pair < PAIRS; ++pair) {
      const TwoVecs<Vec> some = load_two<Vec>(value + pair * 2 * WIDTH);
      UNROLL
      for (int t = 0; t < N; ++t) add(t, weights[t * stride + key], pair, some);
    }
  }
  UNROLL
  for (int t = 0; t < N; ++t) {
    for (int64_t key = n_shared; key < task.n_visible[t]; ++key) {
      const Number *value = head.values + head.place_of(key) + at;
      UNROLL
      for (int pair = 0; pair < PAIRS; ++pair)
        add(t, weights[t * stride + key], pair, load_two<Vec>(value + pair * 2 * WIDTH));
    }
    UNROLL
    for (int pair = 0; pair < PAIRS; ++pair) {
      sums[t][pair].first *= scales[t], sums[t][pair].second *= scales[t];
      store_two<Number>(sums[t][pair], task.context[t] + at + pair * 2 * WIDTH);
    }
  }
}

// The sums for the numbers after the last whole vectors.
template <typename Number>
INLINE void sum_values_of_rest(const Head<Number> &head, int64_t n_keys, const float *weights,
                               float sum, int64_t from, float *context) {
  for (int64_t i = from; i < head.dim; ++i) {
    float rest = 0;
    for (int64_t key = 0; key < n_keys; ++key) {
      // volatile: see dot_of_rest.
      const volatile float product =
          weights[key] * to_float(head.values[head.place_of(key) + i]);
      rest += product;
    }
    context[i] = rest / sum;
  }
}

// Attention of N queries. Keys are summed in the order of their tokens, so the result does not
// depend on other queries.
template <typename Vec, int N_LANES, typename Number, int N>
INLINE void attend_together(const Queries<Number, N> &task, const Workspace &own) {
  constexpr int WIDTH = width<Vec>();
  const Head<Number> &head = task.head;
  const float *queries[N];
  float sums[N], scales[N];
  Vec largest[N];
  UNROLL
  for (int t = 0; t < N; ++t)
    queries[t] =
        in_order_of_loads<Vec, Number>(task.query[t], head.dim, own.query + t * head.dim);
  float *const weights = own.attention_weights;
  const int64_t stride = own.n_weights;
  score<Vec, N_LANES>(task, queries, weights, stride, largest);
  UNROLL
  for (int t = 0; t < N; ++t) {
    sums[t] = take_powers<Vec>(weights + t * stride, task.n_visible[t], reduce_max(largest[t]));
    scales[t] = 1 / sums[t];
    if (task.probabilities[t])
      for (int64_t key = 0; key < task.n_visible[t]; ++key)
        task.probabilities[t][key] = weights[t * stride + key] * scales[t];
  }
  int64_t i = 0;
  for (; i + 4 * WIDTH <= head.dim; i += 4 * WIDTH)
    sum_values<Vec, 2>(task, weights, stride, i, scales);
  for (; i + 2 * WIDTH <= head.dim; i += 2 * WIDTH)
    sum_values<Vec, 1>(task, weights, stride, i, scales);
  for (int t = 0; t < N; ++t)
    sum_values_of_rest(head, task.n_visible[t], weights + t * stride, sums[t], i, task.context[t]);
}

// Attention of the tokens from `first` on, N at a time, which share the loads of keys.
template <typename Vec, int N_LANES, int N, typename Number>
INLINE void attend_from(int64_t first, const Attention &task, const Workspace &own) {
  for (; first + N <= task.n; first += N) {
    Queries<Number, N> some;
    some.head = {static_cast<const Number *>(task.keys), static_cast<const Number *>(task.values),
                 task.slots, task.slot, task.dim};
    some.n_visible = task.n_visible + first;
    for (int t = 0; t < N; ++t) {
      some.query[t] = task.queries + (first + t) * task.query_step;
      some.context[t] = task.contexts + (first + t) * task.context_step;
      some.probabilities[t] = nullptr;
      if (task.probabilities)
        some.probabilities[t] = task.probabilities + (first + t) * task.probability_step;
    }
    attend_together<Vec, N_LANES>(some, own);
  }
  if constexpr (N > 1) attend_from<Vec, N_LANES, N / 2, Number>(first, task, own);
}

// Sizes of heads that are no multiple of two LANES are rare, and use narrow vectors.
template <typename Vec, typename Number>
INLINE void attend_in_lanes(const Attention &task, const Workspace &own) {
  if (task.dim % (2 * LANES) == 0)
    attend_from<Vec, LANES, MOST_QUERIES, Number>(0, task, own);
  else
    attend_from<Vec4, width<Vec4>(), MOST_QUERIES, Number>(0, task, own);
}

template <typename Vec>
INLINE void attend_to_head(const Attention &task, const Workspace &own) {
  if (task.is_bf16)
    attend_in_lanes<Vec, Bf16>(task, own);
  else
    attend_in_lanes<Vec, float>(task, own);
}

// The number of the row's keys that a new token sees.
INLINE int64_t n_visible_to(const Step &step, int64_t row, int64_t token) {
  const int64_t per_step = step.network.tokens_per_step;
  if (!per_step) return step.source_lengths[step.row_source[row]];
  return step.past[row] + (token / per_step + 1) * per_step;
}

// Writes the keys and values of a row's new tokens to the cache, so that they are rounded like
// those of earlier steps.
template <typename Number>
INLINE void write_keys(const Step &step, const float *qkv, int64_t row, Number *keys) {
  const int64_t dim = step.network.dim, head_dim = step.network.head_dim;
  for (int64_t token = 0; token < step.n_new(row); ++token) {
    const int64_t place = (step.past[row] + token) * head_dim;
    round_to(qkv + token * 3 * dim + dim, keys + place, head_dim);
    round_to(qkv + token * 3 * dim + 2 * dim, keys + step.rows.part + place, head_dim);
  }
}

// Self-attention of a row's new tokens in one head, from their queries, keys and values.
template <typename Number>
INLINE void attend_in_row(Attend attend, const Step &step, int64_t layer, int64_t row,
                          int64_t head, const Workspace &own) {
  const int64_t dim = step.network.dim, head_dim = step.network.head_dim;
  const int32_t *const slots = step.token_slots ? step.token_slots[row] : nullptr;
  Number *const own_keys = keys_at<Number>(step.rows, layer, step.slot_of(row), head);
  const Number *const keys = slots ? keys_at<Number>(step.rows, layer, 0, head) : own_keys;
  const float *qkv = own.queries + step.begins[row] * 3 * dim + head * head_dim;
  float *context = own.context + step.begins[row] * dim + head * head_dim;
  write_keys(step, qkv, row, own_keys);
  const int64_t n = step.n_new(row);
  for (int64_t token = 0; token < n; token += MOST_QUERIES) {
    Attention task = {keys, keys + step.rows.part, slots, step.rows.slot, step.rows.is_bf16,
                      head_dim, std::min(MOST_QUERIES, n - token), qkv + token * 3 * dim,
                      context + token * dim, 3 * dim, dim, {}, nullptr, 0};
    for (int64_t t = 0; t < task.n; ++t) task.n_visible[t] = n_visible_to(step, row, token + t);
    attend(task, own);
  }
}

// What a thread attends to at a time: one head, for the rows from `begin` to `end`, which have the
// same source. Keys that these rows share are then read from memory once.
struct Piece {
  int64_t begin, end, head;
};

// The rows of long sentences fetch this number of keys ahead; the processor guesses the rest.
constexpr int64_t MOST_FETCHED = 64;

// Fetches a key and its value from memory.
template <typename Number>
INLINE void fetch_key(const Number *key, int64_t to_value, int64_t dim) {
  constexpr int64_t LINE = 64 / sizeof(Number), NEARBY = 2;  // not into the first cache
  for (int64_t at = 0; at < dim; at += LINE) {
    __builtin_prefetch(key + at, 0, NEARBY);
    __builtin_prefetch(key + to_value + at, 0, NEARBY);
  }
}

template <typename Number>
INLINE void fetch_rows(const Step &step, int64_t layer, const Piece &piece) {
  const int64_t dim = step.network.head_dim;
  const Number *const keys = keys_at<Number>(step.rows, layer, 0, piece.head);
  for (int64_t row = piece.begin; row < piece.end; ++row) {
    const int64_t n = std::min(step.past[row] + step.n_new(row), MOST_FETCHED);
    for (int64_t token = 0; token < n; ++token) {
      const int64_t slot = step.slot_of_token(row, token);
      if (row == piece.begin || slot != step.slot_of_token(row - 1, token))
        fetch_key(keys + slot * step.rows.slot + token * dim, step.rows.part, dim);
    }
  }
}

template <typename Number>
INLINE void fetch_source(const Step &step, int64_t layer, const Piece &piece) {
  const int64_t dim = step.network.head_dim, source = step.row_source[piece.begin];
  const Number *const keys = keys_at<Number>(step.sources, layer, source, piece.head);
  for (int64_t token = 0; token < std::min(step.source_lengths[source], MOST_FETCHED); ++token)
    fetch_key(keys + token * dim, step.sources.part, dim);
}

// Runs the thread's pieces, each after the keys of the next one have been asked for.
template <typename Fetch, typename Run>
INLINE void run_pieces(const Step &step, const Workspace &own, Fetch fetch, Run run) {
  int64_t number = 0;
  Piece last = {};
  for (int64_t begin = 0, end; begin < step.n_rows; begin = end) {
    end = step.end_of_beam(begin);
    for (int64_t head = 0; head < step.network.n_heads; ++head, ++number) {
      if (number % own.count != own.number) continue;
      const Piece piece = {begin, end, head};
      fetch(piece);
      if (last.end) run(last);
      last = piece;
    }
  }
  if (last.end) run(last);
}

template <typename Number>
INLINE void self_attention(Attend attend, const Step &step, int64_t layer, const Workspace &own) {
  run_pieces(
      step, own, [&](const Piece &piece) { fetch_rows<Number>(step, layer, piece); },
      [&](const Piece &piece) {
        for (int64_t row = piece.begin; row < piece.end; ++row)
          attend_in_row<Number>(attend, step, layer, row, piece.head, own);
      });
}

// Where the attention of a token to its source goes; null if it is not needed.
INLINE float *attention_at(const Step &step, int64_t layer, int64_t head, int64_t token) {
  const int64_t n_heads = step.network.aligned_heads;
  if (!step.attention || layer != step.network.aligned_layer || head >= n_heads) return nullptr;
  return step.attention + (token * n_heads + head) * step.attention_width;
}

// Cross-attention of the rows of a piece.
template <typename Number>
INLINE void attend_to_source(Attend attend, const Step &step, int64_t layer, const Piece &piece,
                             const Workspace &own) {
  const int64_t dim = step.network.dim, head_dim = step.network.head_dim;
  const int64_t source = step.row_source[piece.begin], end = step.begins[piece.end];
  const Number *keys = keys_at<Number>(step.sources, layer, source, piece.head);
  for (int64_t token = step.begins[piece.begin]; token < end; token += MOST_QUERIES) {
    const int64_t place = token * dim + piece.head * head_dim;
    Attention task = {keys, keys + step.sources.part, nullptr, 0, step.sources.is_bf16, head_dim,
                      std::min(MOST_QUERIES, end - token), own.queries + place,
                      own.context + place, dim, dim, {},
                      attention_at(step, layer, piece.head, token),
                      step.network.aligned_heads * step.attention_width};
    std::fill_n(task.n_visible, task.n, step.source_lengths[source]);
    attend(task, own);
  }
}

template <typename Number>
INLINE void cross_attention(Attend attend, const Step &step, int64_t layer, const Workspace &own) {
  run_pieces(
      step, own, [&](const Piece &piece) { fetch_source<Number>(step, layer, piece); },
      [&](const Piece &piece) { attend_to_source<Number>(attend, step, layer, piece, own); });
}

enum class Keys { OF_ROWS, OF_SOURCES };

template <Keys KEYS>
INLINE void attend_to_keys(Attend attend, const Step &step, int64_t layer, const Workspace &own) {
  if constexpr (KEYS == Keys::OF_ROWS)
    step.rows.is_bf16 ? self_attention<Bf16>(attend, step, layer, own)
                      : self_attention<float>(attend, step, layer, own);
  else
    step.sources.is_bf16 ? cross_attention<Bf16>(attend, step, layer, own)
                         : cross_attention<float>(attend, step, layer, own);
}

}  // namespace
}  // namespace fastdec
