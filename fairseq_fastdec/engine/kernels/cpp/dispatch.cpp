// A decoder step or an encoder, from ids to features; products are of fp32, bf16 or 8-bit integers.
//
// With a handful of tokens, torch's time goes into starting some hundred operations. Here one call
// does them all; the threads that torch has at hand meet between phases, some microseconds apart.

#include <algorithm>
#include <atomic>
#include <cmath>

#include <sched.h>

#include "checks.h"
#include "quantize.h"

namespace {

struct Norm {
  const float *weight, *bias;
  float epsilon;
};

// Without cross_query it has no attention to sources.
struct Layer {
  Linear self_qkv, self_out, cross_query, cross_out, fc1, fc2;
  Norm self_norm, cross_norm, final_norm;
};

struct Model {
  int64_t n_layers, dim, n_heads, head_dim, hidden, pre_norm, gelu;
  int64_t together;  // so many tokens see each other, 0: all of a row
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
  int64_t slots, length;
};

struct Step {
  Model model;
  const Threads *threads;
  Cache rows, sources;
  int64_t n_rows, n_sources, n_new, first_slot, n_threads;
  const int64_t *tokens;          // [n_rows, n_new]
  const int64_t *parents;         // [n_rows, n_new], which token each follows; null: the last one
  const int64_t *past;            // [n_rows]
  const int64_t *row_source;      // [n_rows]
  const int64_t *source_lengths;  // by source; of an encoder, the rows' own
  float *features;                // [n_rows, n_new, dim]
  float *scratch;                 // [scratch_size]
  int64_t scratch_size;
  std::atomic<int64_t> arrived, phase;
};

struct Thread : Share {
  float *x, *queries, *context, *hidden;  // of all threads: [n, dim], [n, 3 * dim], ...
  float *narrow;                          // of all threads
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

struct Kernels {
  void (*multiply)(const Linear &linear, const float *x, float *y, int64_t n, const Share &share,
                   Then then);
  void (*run)(const Kernels &kernels, Step *step, int64_t number, int64_t count);
  void (*choose)(const Choice &choice, const Share &share);
};

template <typename Lanes>
INLINE void normalize(const Norm &norm, const float *x, float *y, int64_t n) {
  const float center = mean<Lanes>(x, n);
  const float scale = 1 / std::sqrt(dot<Lanes>(x, nullptr, n, center) / n + norm.epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * scale * norm.weight[i] + norm.bias[i];
}

// How many tokens of a tree can follow each other.
constexpr int64_t DEEPEST = 64;

// The keys that a query looks at: the first n, and of those behind them the ones on a path.
struct Seen {
  int64_t n, n_path = 0;
  const int64_t *path = nullptr;

  int64_t count() const { return n + n_path; }
  int64_t place(int64_t key) const { return key < n ? key : n + path[key - n]; }
};

// The sum of weights[key] * values[key] in PARTS registers, from one place on.
template <typename Lanes, int PARTS>
INLINE void mix(const float *weights, const float *values, const Seen &seen, int64_t head_dim,
                float scale, float *context) {
  Lanes sums[PARTS] = {};
  const auto add = [&](int64_t key, const float *value) {
    for (int part = 0; part < PARTS; ++part)
      sums[part] += weights[key] * load<Lanes>(value + part * width<Lanes>());
  };
  for (int64_t key = 0; key < seen.n; ++key) add(key, values + key * head_dim);
  for (int64_t key = seen.n; key < seen.count(); ++key)
    add(key, values + seen.place(key) * head_dim);
  for (int part = 0; part < PARTS; ++part)
    store(sums[part] * scale, context + part * width<Lanes>());
}

// One query over the keys of a head, in the order in which their tokens follow each other: its
// sums are the same whatever else lies between them.
template <typename Lanes>
INLINE void attend(const float *query, const float *keys, const float *values, const Seen &seen,
                   int64_t head_dim, float *weights, float *context) {
  constexpr int WIDTH = width<Lanes>();
  const int64_t n_keys = seen.count();
  float most = -INFINITY, sum = 0;
  for (int64_t key = 0; key < n_keys; ++key)
    most = std::max(
        most, weights[key] = dot<Lanes>(query, keys + seen.place(key) * head_dim, head_dim));
  for (int64_t key = n_keys; key % WIDTH; ++key) weights[key] = -INFINITY;
  for (int64_t key = 0; key < n_keys; key += WIDTH) {
    const Lanes some = exponential(load<Lanes>(weights + key) - most);
    store(some, weights + key);
    sum += total(some);
  }
  int64_t i = 0;
  for (; i + 4 * WIDTH <= head_dim; i += 4 * WIDTH)
    mix<Lanes, 4>(weights, values + i, seen, head_dim, 1 / sum, context + i);
  for (; i + WIDTH <= head_dim; i += WIDTH)
    mix<Lanes, 1>(weights, values + i, seen, head_dim, 1 / sum, context + i);
  for (; i + 4 <= head_dim; i += 4)
    mix<Four, 1>(weights, values + i, seen, head_dim, 1 / sum, context + i);
  for (; i < head_dim; ++i) {
    float rest = 0;
    for (int64_t key = 0; key < n_keys; ++key) {
      // Or else some products would be rounded before they are added, depending on the loop.
      const volatile float product = weights[key] * values[seen.place(key) * head_dim + i];
      rest += product;
    }
    context[i] = rest / sum;
  }
}

// Room for the attention's weights, in registers of any width.
INLINE int64_t longest(const Step &step) {
  int64_t most = 0;
  for (int64_t row = 0; row < step.n_rows; ++row)
    most = std::max({most, step.past[row] + step.n_new, step.source_lengths[step.row_source[row]]});
  return most + width<Sixteen>();
}

// Where a thread's own scratch begins, behind that of all together and of the threads before it.
INLINE int64_t scratch_before(const Step &step, int64_t thread) {
  const int64_t n = step.n_rows * step.n_new, dim = step.model.dim, hidden = step.model.hidden;
  const int64_t of_all = n * (4 * dim + hidden) + size_of_narrow(n, std::max(dim, hidden));
  return of_all + thread * (n * dim + longest(step));
}

INLINE float *keys_of(const Cache &cache, int64_t layer, int64_t slot, int64_t head) {
  return cache.data + layer * cache.layer + slot * cache.slot + head * cache.head;
}

// The tokens of a tree from its root to one of them; returns how many.
INLINE int64_t path_to(const Step &step, int64_t row, int64_t token, int64_t *path) {
  const int64_t *parents = step.parents + row * step.n_new;
  int64_t n = 0;
  for (int64_t at = token; at >= 0; at = parents[at]) path[n++] = at;
  std::reverse(path, path + n);
  return n;
}

// Which keys of its row a new token sees; of a tree, its path is written where there is room.
INLINE Seen seen_by(const Step &step, int64_t row, int64_t token, int64_t *room) {
  const int64_t together = step.model.together;
  if (!together) return {step.source_lengths[step.row_source[row]]};
  if (!step.parents) return {step.past[row] + (token / together + 1) * together};
  return {step.past[row], path_to(step, row, token, room), room};
}

bool are_trees(const Step &step) {
  for (int64_t row = 0; row < step.n_rows; ++row) {
    const int64_t *parents = step.parents + row * step.n_new;
    for (int64_t token = 0; token < step.n_new; ++token) {
      int64_t depth = 0;
      for (int64_t at = token; at >= 0; at = parents[at])
        if (parents[at] < -1 || parents[at] >= at || ++depth > DEEPEST) return false;
    }
  }
  return true;
}

bool is_network(const Model &model) {
  const int64_t dim = model.dim, hidden = model.hidden;
  if (model.n_heads < 1 || model.head_dim < 1 || model.together < 0) return false;
  if (model.n_heads * model.head_dim != dim || (model.n_positions && !model.positions)) return false;
  for (int64_t index = 0; index < model.n_layers; ++index) {
    const Layer &layer = model.layers[index];
    const bool itself = is_layer(layer.self_qkv, dim, 3 * dim) &&
                        is_layer(layer.self_out, dim, dim) && is_layer(layer.fc1, dim, hidden) &&
                        is_layer(layer.fc2, hidden, dim);
    const bool crosses =
        is_layer(layer.cross_query, dim, dim) && is_layer(layer.cross_out, dim, dim);
    if (!itself || (layer.cross_query.outputs && !crosses)) return false;
  }
  return true;
}

bool is_cache(const Cache &cache, const Model &model) {
  return cache.slots >= 0 && cache.length >= 0 && cache.head == cache.length * model.head_dim &&
         cache.slot == cache.head * model.n_heads;
}

Problem problem_of(const Step &step) {
  const Model &model = step.model;
  if (!is_network(model) || !has_threads(step) || step.n_rows < 0 || step.n_new < 0) return SIZES;
  // An encoder's rows are their own sources.
  const Cache &sources = model.together ? step.sources : step.rows;
  if (!is_cache(step.rows, model) || !is_cache(sources, model)) return SIZES;
  if (model.together && step.n_new % model.together) return SIZES;
  if (step.first_slot < 0 || step.first_slot + step.n_rows > step.rows.slots) return PLACES;
  if (step.n_sources > sources.slots) return PLACES;
  for (int64_t row = 0; row < step.n_rows; ++row) {
    if (!is_within(step.row_source[row], step.n_sources)) return PLACES;
    if (!is_within(step.past[row], step.rows.length - step.n_new + 1)) return LENGTHS;
    if (!is_within(step.source_lengths[step.row_source[row]], sources.length + 1)) return LENGTHS;
  }
  for (int64_t at = 0; at < step.n_rows * step.n_new; ++at)
    if (!is_within(step.tokens[at], model.n_types)) return TOKENS;
  return step.parents && !are_trees(step) ? TREE : NONE;
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
    int64_t path[DEEPEST];
    for (int64_t token = 0; token < step.n_new; ++token)
      attend<Lanes>(qkv + token * 3 * dim, keys, values, seen_by(step, row, token, path), head_dim,
                    own.weights, own.context + (row * step.n_new + token) * dim + head * head_dim);
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
                    {step.source_lengths[source]}, head_dim, own.weights, own.context + place);
    }
  }
}

template <typename Lanes>
INLINE void embed(const Step &step, float *x) {
  const Model &model = step.model;
  int64_t path[DEEPEST];
  for (int64_t row = 0; row < step.n_rows; ++row) {
    for (int64_t token = 0; token < step.n_new; ++token) {
      const int64_t at = row * step.n_new + token;
      const float *word = model.embed + step.tokens[at] * model.dim;
      float *to = x + at * model.dim;
      for (int64_t i = 0; i < model.dim; ++i) to[i] = model.embed_scale * word[i];
      if (model.n_positions) {
        const int64_t before = step.parents ? path_to(step, row, token, path) - 1 : token;
        const int64_t place = std::min(step.past[row] + before, model.n_positions - 1);
        const float *position = model.positions + place * model.dim;
        for (int64_t i = 0; i < model.dim; ++i) to[i] += position[i];
      }
      if (model.embed_norm.weight) normalize<Lanes>(model.embed_norm, to, to, model.dim);
    }
  }
}

// y [n, outputs] from x [n, inputs], which is normalised before if there is a norm to it.
template <typename Lanes>
INLINE void apply(const Kernels &kernels, Step &step, const Linear &linear, const Norm *norm,
                  const float *x, float *y, Then then, const Thread &own) {
  const int64_t n = step.n_rows * step.n_new, dim = linear.inputs;
  if (linear.weight) {
    // Each thread normalises all tokens for itself: they need not meet then.
    for (int64_t at = 0; norm && at < n * dim; at += dim)
      normalize<Lanes>(*norm, x + at, own.normalized + at, dim);
    kernels.multiply(linear, norm ? own.normalized : x, y, n, own, then);
    return;
  }
  for (int64_t token = own.number; token < n; token += own.count) {
    const float *from = x + token * dim;
    if (norm) normalize<Lanes>(*norm, from, own.normalized, dim);
    narrow(linear, norm ? own.normalized : from, own.narrow, token, n);
  }
  meet(step, own);
  multiply_narrow(linear, own.narrow, y, n, own, then);
}

// A thread's share of the tokens in x.
template <typename Lanes>
INLINE void normalize_share(const Step &step, const Norm &norm, const Thread &own) {
  const int64_t n = step.n_rows * step.n_new, dim = step.model.dim;
  for (int64_t token = own.number; token < n; token += own.count)
    normalize<Lanes>(norm, own.x + token * dim, own.x + token * dim, dim);
}

// The end of a sublayer, whose output has been added to x.
template <typename Lanes>
INLINE void after(Step &step, const Norm &norm, const Thread &own) {
  meet(step, own);
  if (step.model.pre_norm) return;
  normalize_share<Lanes>(step, norm, own);
  meet(step, own);
}

INLINE Thread thread_of(const Step &step, int64_t number, int64_t count) {
  const int64_t n = step.n_rows * step.n_new, size = n * step.model.dim;
  Thread own;
  own.number = number, own.count = count;
  own.x = step.features;
  own.queries = step.scratch;
  own.context = own.queries + 3 * size;
  own.hidden = own.context + size;
  own.narrow = own.hidden + n * step.model.hidden;
  own.normalized = step.scratch + scratch_before(step, number);
  own.weights = own.normalized + size;
  return own;
}

template <typename Lanes>
INLINE void run_layer(const Kernels &kernels, Step &step, int64_t index, const Thread &own) {
  const Model &model = step.model;
  const Layer &layer = model.layers[index];
  const auto before = [&](const Norm &norm) { return model.pre_norm ? &norm : nullptr; };
  apply<Lanes>(kernels, step, layer.self_qkv, before(layer.self_norm), own.x, own.queries,
               Then::STORE, own);
  meet(step, own);
  self_attention<Lanes>(step, index, own);
  meet(step, own);
  apply<Lanes>(kernels, step, layer.self_out, nullptr, own.context, own.x, Then::ADD, own);
  after<Lanes>(step, layer.self_norm, own);
  if (layer.cross_query.outputs) {
    apply<Lanes>(kernels, step, layer.cross_query, before(layer.cross_norm), own.x, own.queries,
                 Then::STORE, own);
    meet(step, own);
    cross_attention<Lanes>(step, index, own);
    meet(step, own);
    apply<Lanes>(kernels, step, layer.cross_out, nullptr, own.context, own.x, Then::ADD, own);
    after<Lanes>(step, layer.cross_norm, own);
  }
  apply<Lanes>(kernels, step, layer.fc1, before(layer.final_norm), own.x, own.hidden,
               model.gelu ? Then::GELU : Then::RELU, own);
  meet(step, own);
  apply<Lanes>(kernels, step, layer.fc2, nullptr, own.hidden, own.x, Then::ADD, own);
  after<Lanes>(step, layer.final_norm, own);
}

template <typename Lanes>
INLINE void run_by(const Kernels &kernels, Step *that, int64_t number, int64_t count) {
  Step &step = *that;
  const Model &model = step.model;
  const Thread own = thread_of(step, number, count);
  if (number == 0) embed<Lanes>(step, own.x);
  meet(step, own);
  for (int64_t index = 0; index < model.n_layers; ++index)
    run_layer<Lanes>(kernels, step, index, own);
  if (model.final_norm.weight) normalize_share<Lanes>(step, model.final_norm, own);
}

// What is compiled for each kind of processor: registers of 4, 8 or 16 floats.
#define FOR_PROCESSOR(NAME, LANES, TARGET)                                                      \
  TARGET void multiply_##NAME(const Linear &linear, const float *x, float *y, int64_t n,        \
                              const Share &share, Then then) {                                  \
    multiply_by<LANES>(linear, x, y, n, share, then);                                           \
  }                                                                                             \
  TARGET void run_##NAME(const Kernels &kernels, Step *step, int64_t number, int64_t count) {   \
    run_by<LANES>(kernels, step, number, count);                                                \
  }                                                                                             \
  TARGET void choose_##NAME(const Choice &choice, const Share &share) {                         \
    best_of_parts<LANES>(choice, share);                                                        \
  }

FOR_PROCESSOR(any, Four, )
#if defined(__x86_64__)
FOR_PROCESSOR(avx2, Eight, __attribute__((target("avx2,fma"))))
FOR_PROCESSOR(avx512, Sixteen, __attribute__((target("avx512f,avx2,fma"))))
#endif

// The kernels of the widest registers that the processor has, of at most so many floats.
Kernels kernels(int64_t widest) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (widest >= width<Sixteen>() && __builtin_cpu_supports("avx512f"))
    return {multiply_avx512, run_avx512, choose_avx512};
  if (widest >= width<Eight>() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {multiply_avx2, run_avx2, choose_avx2};
#endif
  return {multiply_any, run_any, choose_any};
}

Kernels chosen = kernels(width<Sixteen>());

bool has_vnni() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

struct Product {
  Linear linear;
  const Threads *threads;
  int64_t n, n_threads;
  const float *x;  // [n, inputs]
  float *y;        // [n, outputs]
  float *scratch;  // [size_of_narrow], without fp32 weights
};

Problem problem_of(const Product &product) {
  const Linear &linear = product.linear;
  const bool fits = product.n >= 0 && is_layer(linear, linear.inputs, linear.outputs);
  return fits && has_threads(product) ? NONE : SIZES;
}

void narrow(const Product &product, const Share &share) {
  const int64_t inputs = product.linear.inputs;
  for (int64_t token = share.number; token < product.n; token += share.count)
    narrow(product.linear, product.x + token * inputs, product.scratch, token, product.n);
}

void multiply(const Product &product, const Share &share) {
  if (product.linear.weight)
    chosen.multiply(product.linear, product.x, product.y, product.n, share, Then::STORE);
  else
    multiply_narrow(product.linear, product.scratch, product.y, product.n, share, Then::STORE);
}

void choose(const Choice &choice, const Share &share) { chosen.choose(choice, share); }

template <typename Task, void (*DO)(const Task &, const Share &)>
void as_thread(void *that) {
  const Task &task = *static_cast<const Task *>(that);
  DO(task, {task.threads->number(), task.threads->count()});
}

template <typename Task, void (*DO)(const Task &, const Share &)>
void in_threads(Task *task) {
  if (task->n_threads == 1)
    DO(*task, {0, 1});
  else
    task->threads->parallel(as_thread<Task, DO>, task, task->n_threads, 0);
}

void run_as_thread(void *that) {
  Step *step = static_cast<Step *>(that);
  chosen.run(chosen, step, step->threads->number(), step->threads->count());
}

}  // namespace

extern "C" {

int64_t fastdec_block() { return BLOCK; }

int64_t fastdec_group() { return GROUP; }

int64_t fastdec_pair() { return PAIR; }

int64_t fastdec_has_codes() { return has_vnni(); }

int64_t fastdec_has_halves() { return has_bf16(); }

// The size of a structure, by its place in the list of structures.py; -1 behind the last.
int64_t fastdec_size_of(int64_t structure) {
  constexpr int64_t sizes[] = {sizeof(Linear), sizeof(Norm),    sizeof(Layer),
                               sizeof(Model),  sizeof(Cache),   sizeof(Threads),
                               sizeof(Step),   sizeof(Product), sizeof(Choice),
                               sizeof(Move)};
  constexpr int64_t n = sizeof(sizes) / sizeof(sizes[0]);
  return is_within(structure, n) ? sizes[structure] : -1;
}

// For tests: from now on compute in registers of at most so many floats.
void fastdec_set_width(int64_t widest) { chosen = kernels(widest); }

int64_t fastdec_size_of_narrow(int64_t n, int64_t inputs) { return size_of_narrow(n, inputs); }

// How many floats of scratch memory a step needs, or the negative of a Problem.
int64_t fastdec_scratch_size(const Step *step) {
  const Problem problem = problem_of(*step);
  return problem ? -problem : scratch_before(*step, step->n_threads);
}

// These do what is asked for, or return a Problem.
int64_t fastdec_run(Step *step) {
  if (const Problem problem = problem_of(*step)) return problem;
  if (scratch_before(*step, step->n_threads) > step->scratch_size) return SCRATCH;
  step->arrived = step->phase = 0;
  if (step->n_threads == 1)
    chosen.run(chosen, step, 0, 1);
  else
    step->threads->parallel(run_as_thread, step, step->n_threads, 0);
  return NONE;
}

int64_t fastdec_multiply(Product *product) {
  if (const Problem problem = problem_of(*product)) return problem;
  if (!product->linear.weight) in_threads<Product, narrow>(product);
  in_threads<Product, multiply>(product);
  return NONE;
}

int64_t fastdec_size_of_choice(const Choice *choice) { return size_of_scratch(*choice); }

int64_t fastdec_choose(Choice *choice) {
  if (const Problem problem = problem_of(*choice)) return problem;
  in_threads<Choice, choose>(choice);
  if (choice->n_parts > 1) in_threads<Choice, join_parts>(choice);
  return NONE;
}

int64_t fastdec_move(Move *task) {
  if (const Problem problem = problem_of(*task)) return problem;
  // Of nothing there may be no address, not even to copy no bytes from.
  if (task->n && task->used) in_threads<Move, move>(task);
  return NONE;
}
}
