// A decoder step for a handful of tokens, from ids to features, in fp32.
//
// At such sizes torch's time goes into starting some hundred operations. Here one call does them
// all; the threads that torch has at hand meet between phases, some microseconds apart.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

namespace {

constexpr int BLOCK = 32;  // outputs that lie side by side in a packed weight

struct Linear {
  const float *weight;  // [blocks, inputs, BLOCK]; the last block may be filled up
  const float *bias;    // [blocks, BLOCK]
  int64_t inputs, outputs;
};

struct Norm {
  const float *weight, *bias;
  float epsilon;
};

struct Layer {
  Linear self_qkv, self_out, cross_query, cross_out, fc1, fc2;
  Norm self_norm, cross_norm, final_norm;
};

struct Model {
  int64_t n_layers, dim, n_heads, head_dim, hidden, pre_norm, gelu, together;
  const Layer *layers;
  Norm embed_norm, final_norm;  // weight 0: none
  const float *embed, *positions;
  int64_t n_types, n_positions;  // 0 positions: none
  float embed_scale;
};

// [layers, 2, slots, heads, length, head_dim]
struct Cache {
  float *data;
  int64_t layer, part, slot, head;  // strides
};

// GCC's OpenMP library, in which torch has its threads: fn(data) in so many of them, or fewer.
struct Threads {
  void (*parallel)(void (*fn)(void *), void *data, unsigned n_threads, unsigned flags);
  int (*number)();
  int (*count)();
};

struct Step {
  Model model;
  const Threads *threads;
  Cache rows, sources;
  int64_t n_rows, n_new, first_slot, n_threads;
  const int64_t *tokens;          // [n_rows, n_new]
  const int64_t *past;            // [n_rows]
  const int64_t *row_source;      // [n_rows]
  const int64_t *source_lengths;  // by source
  float *features;                // [n_rows, n_new, dim]
  float *scratch;                 // see scratch_size
  std::atomic<int64_t> arrived, phase;
};

// One of the threads that run a step together.
struct Thread {
  int64_t number, count;
  float *x, *queries, *context, *hidden;  // of all threads: [n, dim], [n, 3 * dim], ...
  float *normalized, *weights;            // of one thread: [n, dim], [longest]
};

INLINE void meet(Step &step, const Thread &own) {
  if (own.count == 1) return;
  const int64_t phase = step.phase.load(std::memory_order_acquire);
  if (step.arrived.fetch_add(1, std::memory_order_acq_rel) == own.count - 1) {
    step.arrived.store(0, std::memory_order_relaxed);
    step.phase.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; step.phase.load(std::memory_order_acquire) == phase; ++spins) {
#if defined(__x86_64__)
    _mm_pause();
#endif
    // Somebody else may need this processor, perhaps the thread that is waited for.
    if (spins > 200) sched_yield();
  }
}

enum class Then { STORE, ADD, RELU, GELU };

struct Kernels {
  void (*multiply)(const Linear &linear, const float *x, float *y, int64_t n, const Thread &own,
                   Then then);
  void (*run)(const Kernels &kernels, Step *step, int64_t number, int64_t count);
};

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
typedef float Sixteen __attribute__((vector_size(64)));

template <typename Lanes>
constexpr int width() {
  return sizeof(Lanes) / sizeof(float);
}

// From any address: rows need not begin where registers would.
template <typename Lanes>
INLINE Lanes load(const float *from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <typename Lanes>
INLINE float total(const Lanes &lanes) {
  float sum = 0;
  for (int lane = 0; lane < width<Lanes>(); ++lane) sum += lanes[lane];
  return sum;
}

// The sum of a[i] * b[i], or of (a[i] - shift)^2 without b.
template <typename Lanes>
INLINE float dot(const float *a, const float *b, int64_t n, float shift = 0) {
  Lanes lanes = {};
  int64_t i = 0;
  for (; i + width<Lanes>() <= n; i += width<Lanes>()) {
    const Lanes left = load<Lanes>(a + i) - shift;
    lanes += left * (b ? load<Lanes>(b + i) : left);
  }
  float sum = total(lanes);
  for (; i < n; ++i) sum += (a[i] - shift) * (b ? b[i] : a[i] - shift);
  return sum;
}

template <typename Lanes>
INLINE float mean(const float *x, int64_t n) {
  Lanes lanes = {};
  int64_t i = 0;
  for (; i + width<Lanes>() <= n; i += width<Lanes>()) lanes += load<Lanes>(x + i);
  float sum = total(lanes);
  for (; i < n; ++i) sum += x[i];
  return sum / n;
}

template <typename Lanes>
INLINE void normalize(const Norm &norm, const float *x, float *y, int64_t n) {
  const float center = mean<Lanes>(x, n);
  const float scale = 1 / std::sqrt(dot<Lanes>(x, nullptr, n, center) / n + norm.epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * scale * norm.weight[i] + norm.bias[i];
}

// Each of n tokens: x [n, dim] to y [n, dim].
template <typename Lanes>
INLINE void normalize_all(const Norm &norm, const float *x, float *y, int64_t n, int64_t dim) {
  for (int64_t at = 0; at < n * dim; at += dim) normalize<Lanes>(norm, x + at, y + at, dim);
}

template <typename Lanes, int N>
INLINE void tile(const Linear &linear, int64_t block, const float *x, float *y, Then then) {
  constexpr int PARTS = BLOCK / width<Lanes>();
  const float *weight = linear.weight + block * linear.inputs * BLOCK;
  const float *bias = linear.bias + block * BLOCK;
  Lanes sums[N][PARTS];
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < PARTS; ++part)
      sums[n][part] = load<Lanes>(bias + part * width<Lanes>());
  for (int64_t i = 0; i < linear.inputs; ++i, weight += BLOCK) {
    for (int n = 0; n < N; ++n) {
      const float factor = x[n * linear.inputs + i];
      for (int part = 0; part < PARTS; ++part)
        sums[n][part] += factor * load<Lanes>(weight + part * width<Lanes>());
    }
  }
  const int64_t n_outputs = std::min<int64_t>(BLOCK, linear.outputs - block * BLOCK);
  for (int n = 0; n < N; ++n) {
    float *to = y + n * linear.outputs + block * BLOCK;
    float values[BLOCK];
    std::memcpy(values, sums[n], sizeof values);
    for (int64_t i = 0; i < n_outputs; ++i) {
      float value = values[i];
      if (then == Then::ADD) value += to[i];
      if (then == Then::RELU) value = std::max(value, 0.0f);
      if (then == Then::GELU) value *= 0.5f * (1 + std::erf(value * 0.70710678118654752f));
      to[i] = value;
    }
  }
}

// y [n, outputs] from x [n, inputs]; each thread computes some of the outputs.
template <typename Lanes>
INLINE void multiply_by(const Linear &linear, const float *x, float *y, int64_t n,
                        const Thread &own, Then then) {
  // As many tokens at a time as their sums fit into registers.
  constexpr int TILE = width<Lanes>() / 4;
  const int64_t n_blocks = (linear.outputs + BLOCK - 1) / BLOCK;
  const int64_t first = n_blocks * own.number / own.count;
  const int64_t last = n_blocks * (own.number + 1) / own.count;
  for (int64_t block = first; block < last; ++block) {
    for (int64_t token = 0; token < n; token += TILE) {
      const float *from = x + token * linear.inputs;
      float *to = y + token * linear.outputs;
      const int64_t left = n - token;
      if (left >= TILE)
        tile<Lanes, TILE>(linear, block, from, to, then);
      else if (left == 1)
        tile<Lanes, 1>(linear, block, from, to, then);
      else if (left == 2)
        tile<Lanes, 2>(linear, block, from, to, then);
      else
        tile<Lanes, 3>(linear, block, from, to, then);
    }
  }
}

// One query over the first n_keys keys of a head.
template <typename Lanes>
INLINE void attend(const float *query, const float *keys, const float *values, int64_t n_keys,
                   int64_t head_dim, float *weights, float *context) {
  float most = -INFINITY, total = 0;
  for (int64_t key = 0; key < n_keys; ++key)
    most = std::max(most, weights[key] = dot<Lanes>(query, keys + key * head_dim, head_dim));
  for (int64_t key = 0; key < n_keys; ++key)
    total += weights[key] = std::exp(weights[key] - most);
  std::memset(context, 0, head_dim * sizeof(float));
  for (int64_t key = 0; key < n_keys; ++key) {
    const float weight = weights[key] / total;
    for (int64_t i = 0; i < head_dim; ++i) context[i] += weight * values[key * head_dim + i];
  }
}

INLINE int64_t longest(const Step &step) {
  int64_t most = 0;
  for (int64_t row = 0; row < step.n_rows; ++row)
    most = std::max({most, step.past[row] + step.n_new, step.source_lengths[step.row_source[row]]});
  return most;
}

// Where a thread's own scratch begins, behind that of all together and of the threads before it.
INLINE int64_t scratch_before(const Step &step, int64_t thread) {
  const int64_t n = step.n_rows * step.n_new, dim = step.model.dim;
  return n * (4 * dim + step.model.hidden) + thread * (n * dim + longest(step));
}

INLINE float *keys_of(const Cache &cache, int64_t layer, int64_t slot, int64_t head) {
  return cache.data + layer * cache.layer + slot * cache.slot + head * cache.head;
}

template <typename Lanes>
INLINE void self_attention(Step &step, int64_t layer, const Thread &own) {
  const Model &model = step.model;
  const int64_t dim = model.dim, head_dim = model.head_dim, n_heads = model.n_heads;
  const int64_t n_pairs = step.n_rows * n_heads;
  for (int64_t pair = own.number; pair < n_pairs; pair += own.count) {
    const int64_t row = pair / n_heads, head = pair % n_heads, past = step.past[row];
    float *keys = keys_of(step.rows, layer, step.first_slot + row, head);
    float *values = keys + step.rows.part;
    const float *qkv = own.queries + row * step.n_new * 3 * dim + head * head_dim;
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t place = (past + token) * head_dim;
      std::memcpy(keys + place, qkv + token * 3 * dim + dim, head_dim * sizeof(float));
      std::memcpy(values + place, qkv + token * 3 * dim + 2 * dim, head_dim * sizeof(float));
    }
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t seen = past + (token / model.together + 1) * model.together;
      attend<Lanes>(qkv + token * 3 * dim, keys, values, seen, head_dim, own.weights,
                    own.context + (row * step.n_new + token) * dim + head * head_dim);
    }
  }
}

template <typename Lanes>
INLINE void cross_attention(Step &step, int64_t layer, const Thread &own) {
  const Model &model = step.model;
  const int64_t dim = model.dim, head_dim = model.head_dim, n_heads = model.n_heads;
  const int64_t n_pairs = step.n_rows * n_heads;
  for (int64_t pair = own.number; pair < n_pairs; pair += own.count) {
    const int64_t row = pair / n_heads, head = pair % n_heads, source = step.row_source[row];
    const float *keys = keys_of(step.sources, layer, source, head);
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t place = (row * step.n_new + token) * dim + head * head_dim;
      attend<Lanes>(own.queries + place, keys, keys + step.sources.part,
                    step.source_lengths[source], head_dim, own.weights, own.context + place);
    }
  }
}

template <typename Lanes>
INLINE void embed(const Step &step, float *x) {
  const Model &model = step.model;
  for (int64_t row = 0; row < step.n_rows; ++row) {
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t at = row * step.n_new + token;
      const float *word = model.embed + step.tokens[at] * model.dim;
      float *to = x + at * model.dim;
      for (int64_t i = 0; i < model.dim; ++i) to[i] = model.embed_scale * word[i];
      if (model.n_positions) {
        const int64_t place = std::min(step.past[row] + token, model.n_positions - 1);
        const float *position = model.positions + place * model.dim;
        for (int64_t i = 0; i < model.dim; ++i) to[i] += position[i];
      }
      if (model.embed_norm.weight) normalize<Lanes>(model.embed_norm, to, to, model.dim);
    }
  }
}

template <typename Lanes>
INLINE const float *before(const Norm &norm, const Model &model, const Thread &own, int64_t n) {
  if (!model.pre_norm) return own.x;
  normalize_all<Lanes>(norm, own.x, own.normalized, n, model.dim);
  return own.normalized;
}

// Where layers end in a normalisation, one thread does it, and the others wait.
template <typename Lanes>
INLINE void after(Step &step, const Norm &norm, const Thread &own, int64_t n) {
  meet(step, own);
  if (step.model.pre_norm) return;
  if (own.number == 0) normalize_all<Lanes>(norm, own.x, own.x, n, step.model.dim);
  meet(step, own);
}

template <typename Lanes>
INLINE void run_by(const Kernels &kernels, Step *that, int64_t number, int64_t count) {
  Step &step = *that;
  const Model &model = step.model;
  const int64_t n = step.n_rows * step.n_new, size = n * model.dim;
  Thread own;
  own.number = number, own.count = count;
  own.x = step.features;
  own.queries = step.scratch;
  own.context = own.queries + 3 * size;
  own.hidden = own.context + size;
  own.normalized = step.scratch + scratch_before(step, number);
  own.weights = own.normalized + size;
  if (number == 0) embed<Lanes>(step, own.x);
  meet(step, own);
  for (int64_t index = 0; index < model.n_layers; ++index) {
    const Layer &layer = model.layers[index];
    kernels.multiply(layer.self_qkv, before<Lanes>(layer.self_norm, model, own, n), own.queries, n,
                     own, Then::STORE);
    meet(step, own);
    self_attention<Lanes>(step, index, own);
    meet(step, own);
    kernels.multiply(layer.self_out, own.context, own.x, n, own, Then::ADD);
    after<Lanes>(step, layer.self_norm, own, n);
    kernels.multiply(layer.cross_query, before<Lanes>(layer.cross_norm, model, own, n), own.queries,
                     n, own, Then::STORE);
    meet(step, own);
    cross_attention<Lanes>(step, index, own);
    meet(step, own);
    kernels.multiply(layer.cross_out, own.context, own.x, n, own, Then::ADD);
    after<Lanes>(step, layer.cross_norm, own, n);
    kernels.multiply(layer.fc1, before<Lanes>(layer.final_norm, model, own, n), own.hidden, n, own,
                     model.gelu ? Then::GELU : Then::RELU);
    meet(step, own);
    kernels.multiply(layer.fc2, own.hidden, own.x, n, own, Then::ADD);
    after<Lanes>(step, layer.final_norm, own, n);
  }
  if (model.final_norm.weight && number == 0)
    normalize_all<Lanes>(model.final_norm, own.x, own.x, n, model.dim);
}

// What is compiled for each kind of processor: registers of 4, 8 or 16 floats.
#define FOR_PROCESSOR(NAME, LANES, TARGET)                                                      \
  TARGET void multiply_##NAME(const Linear &linear, const float *x, float *y, int64_t n,        \
                              const Thread &own, Then then) {                                   \
    multiply_by<LANES>(linear, x, y, n, own, then);                                             \
  }                                                                                             \
  TARGET void run_##NAME(const Kernels &kernels, Step *step, int64_t number, int64_t count) {   \
    run_by<LANES>(kernels, step, number, count);                                                \
  }

FOR_PROCESSOR(any, Four, )
#if defined(__x86_64__)
FOR_PROCESSOR(avx2, Eight, __attribute__((target("avx2,fma"))))
FOR_PROCESSOR(avx512, Sixteen, __attribute__((target("avx512f,avx2,fma"))))
#endif

Kernels choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return {multiply_avx512, run_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {multiply_avx2, run_avx2};
#endif
  return {multiply_any, run_any};
}

const Kernels chosen = choose();

struct Product {
  Linear linear;
  const Threads *threads;
  int64_t n, n_threads;
  const float *x;  // [n, inputs]
  float *y;        // [n, outputs]
};

void multiply(const Product *product, int64_t number, int64_t count) {
  Thread own = {};
  own.number = number, own.count = count;
  chosen.multiply(product->linear, product->x, product->y, product->n, own, Then::STORE);
}

void multiply_as_thread(void *that) {
  const Product *product = static_cast<const Product *>(that);
  multiply(product, product->threads->number(), product->threads->count());
}

void run_as_thread(void *that) {
  Step *step = static_cast<Step *>(that);
  chosen.run(chosen, step, step->threads->number(), step->threads->count());
}

}  // namespace

extern "C" {

int64_t fastdec_block() { return BLOCK; }

int64_t fastdec_size_of_step() { return sizeof(Step); }

int64_t fastdec_scratch_size(const Step *step) {
  return scratch_before(*step, step->n_threads);
}

// Returns 0, or 1 for tokens that are not in the dictionary; then nothing has been done.
int64_t fastdec_run(Step *step) {
  for (int64_t at = 0; at < step->n_rows * step->n_new; ++at)
    if (step->tokens[at] < 0 || step->tokens[at] >= step->model.n_types) return 1;
  step->arrived = step->phase = 0;
  if (step->n_threads == 1)
    chosen.run(chosen, step, 0, 1);
  else
    step->threads->parallel(run_as_thread, step, step->n_threads, 0);
  return 0;
}

void fastdec_multiply(Product *product) {
  if (product->n_threads == 1)
    multiply(product, 0, 1);
  else
    product->threads->parallel(multiply_as_thread, product, product->n_threads, 0);
}
}
