// Measures the costs of work and of threads, and chooses the number of threads of a call.

#pragma once

#include <chrono>
#include <vector>

#include "linear.h"
#include "workspace.h"

namespace fastdec {
namespace {

// What measure_costs has measured; it holds for all calls of the process.
Costs costs = {};

// The work between two barriers: its time in one thread, in nanoseconds, and the number of pieces
// into which it can be divided.
struct Phase {
  double time;
  int64_t pieces;

  // The time of the thread with the most pieces.
  double in(int64_t n_threads) const {
    return pieces ? time / pieces * ((pieces + n_threads - 1) / n_threads) : 0;
  }
};

INLINE double work_time(double bytes, double of_byte, double products, double of_product) {
  return std::max(bytes * of_byte, products * of_product);
}

INLINE Phase phase_of(const Linear &linear, int64_t n) {
  const double size = double(linear.inputs) * linear.outputs, products = n * size;
  const double of_product = costs.of_product[linear.format->number];
  return {work_time(4 * size / linear.format->group, costs.of_byte, products, of_product),
          n_blocks_of(linear.outputs)};
}

// The keys that the rows of a step attend to.
//   n       distinct keys, which are read once
//   n_seen  pairs of a token and a key
struct KeysSeen {
  double n = 0, n_seen = 0;

  void add(int64_t n_keys, int64_t n_tokens) { n += n_keys, n_seen += double(n_keys) * n_tokens; }
};

// The attention of a step's rows to these keys.
INLINE Phase phase_of(const Step &step, const Cache &cache, KeysSeen keys) {
  const double size = 2 * step.network.dim, bytes = keys.n * size * (cache.is_bf16 ? 2 : 4);
  const double of_product = costs.of_product[FP32.number];
  return {work_time(bytes, costs.of_byte, keys.n_seen * size, of_product),
          attention_pieces(step)};
}

// The phases of a layer of a step; all layers of a network have the same sizes.
struct LayerPhases {
  Phase phases[8];
  int64_t n = 0, n_meetings = 0;
};

INLINE void add_product(const Step &step, const Linear &linear, LayerPhases &to) {
  const int64_t n = step.n();
  to.phases[to.n++] = phase_of(linear, n);
  to.n_meetings += quantizes_together(linear, n) ? 2 : 1;
}

INLINE void add_attention(const Step &step, const Cache &cache, KeysSeen keys, LayerPhases &to) {
  to.phases[to.n++] = phase_of(step, cache, keys);
  to.n_meetings += 1;
}

INLINE KeysSeen source_keys_of(const Step &step) {
  KeysSeen keys;
  for (int64_t row = 0; row < step.n_rows; ++row)
    keys.add(step.source_lengths[step.row_source[row]], step.n_new(row));
  return keys;
}

INLINE LayerPhases phases_of(const Step &step) {
  const Layer &layer = step.network.layers[0];
  KeysSeen of_rows;  // as if rows of a beam had no key in common
  for (int64_t row = 0; row < step.n_rows; ++row)
    of_rows.add(step.past[row] + step.n_new(row), step.n_new(row));
  LayerPhases own;
  if (layer.recurrence.outputs) {
    add_product(step, layer.recurrence, own);
    own.n_meetings += 1;
  } else {
    add_product(step, layer.self_qkv, own);
    add_attention(step, step.rows, of_rows, own);
    add_product(step, layer.self_out, own);
  }
  if (layer.cross_query.outputs) {
    add_product(step, layer.cross_query, own);
    add_attention(step, step.sources, source_keys_of(step), own);
    add_product(step, layer.cross_out, own);
  }
  add_product(step, layer.fc1, own);
  add_product(step, layer.fc2, own);
  // Norms after sublayers need another barrier.
  if (!step.network.pre_norm) own.n_meetings += layer.cross_query.outputs ? 3 : 2;
  return own;
}

// The time of a barrier that all threads reach at the same time, interpolated linearly.
INLINE double meeting_time(int64_t n_threads) {
  if (n_threads == 1) return 0;
  const double more = double(n_threads - 2) / std::max<int64_t>(costs.most_threads - 2, 1);
  return costs.meeting_of_two + more * (costs.meeting_of_most - costs.meeting_of_two);
}

// The number of threads, up to a limit, with the shortest time. Large numbers are sampled.
template <typename Time>
INLINE int64_t best_number(int64_t limit, Time time) {
  int64_t best = 1;
  double shortest = time(1);
  for (int64_t n = 1; n < limit;) {
    n = std::min(n + std::max<int64_t>(1, n / 4), limit);
    const double own = time(n);
    if (own < shortest) shortest = own, best = n;
  }
  return best;
}

// The fastest number of threads for the layers of a step, at most step.n_threads.
INLINE int64_t threads_for(const Step &step, const LayerPhases &layer, int64_t n_layers) {
  return best_number(step.n_threads, [&](int64_t n_threads) {
    double time = layer.n_meetings * meeting_time(n_threads);
    for (int64_t i = 0; i < layer.n; ++i) time += layer.phases[i].in(n_threads);
    return n_layers * time + (n_threads > 1 ? costs.start : 0);
  });
}

INLINE int64_t threads_for(const Step &step) {
  if (step.n_threads == 1 || !costs.most_threads || !step.network.n_layers)
    return step.n_threads;
  return threads_for(step, phases_of(step), step.network.n_layers);
}

INLINE int64_t threads_for(const SequentialHeads &heads) {
  const Step &step = heads.step;
  if (step.n_threads == 1 || !costs.most_threads) return step.n_threads;
  LayerPhases phases;
  for (const Linear *linear : {&heads.token, &heads.query, &heads.source, &heads.fc1, &heads.fc2})
    add_product(step, *linear, phases);
  if (heads.narrow.outputs) add_product(step, heads.narrow, phases);
  if (heads.from_features) add_product(step, heads.begin, phases);
  add_attention(step, step.sources, source_keys_of(step), phases);
  return threads_for(step, phases, 1);
}

// The fastest number of threads for a layer, followed by n_others other layers of equal size.
template <typename Task>
INLINE int64_t threads_for(const Task &task, const Linear &linear, const Linear &other,
                           int64_t n_others, int64_t n_meetings) {
  if (task.n_threads == 1 || !costs.most_threads) return task.n_threads;
  const Phase phase = phase_of(linear, task.n), next = phase_of(other, task.n);
  return best_number(task.n_threads, [&](int64_t n_threads) {
    return phase.in(n_threads) + n_others * next.in(n_threads) +
           n_meetings * meeting_time(n_threads) + (n_threads > 1 ? costs.start : 0);
  });
}

INLINE int64_t threads_for(const Product &product) {
  return threads_for(product, product.linear, product.linear, 0, 0);
}

INLINE int64_t threads_for(const BestTokens &task) {
  return threads_for(task, task.linear, task.linear, 0, 2);
}

// The fastest number of threads for n choices, which threads share.
INLINE int64_t threads_for(const BestTokens *tasks, int64_t n, int64_t n_threads) {
  if (n_threads == 1 || !costs.most_threads) return n_threads;
  Phase whole = {0, n};
  for (int64_t i = 0; i < n; ++i) whole.time += phase_of(tasks[i].linear, tasks[i].n).time;
  return best_number(n_threads, [&](int64_t n_own) {
    return whole.in(n_own) + (n_own > 1 ? costs.start : 0);
  });
}

INLINE int64_t threads_for(const Heads &heads) {
  const int64_t n_layers = 1 + heads.n_outputs;
  const int64_t n_meetings = heads.hidden.rounds_inputs() ? 2 + 2 * n_layers : 2;
  return threads_for(heads, heads.hidden, heads.outputs[0], heads.n_outputs, n_meetings);
}

// A task with barriers and no work.
struct Meetings {
  int64_t n;
  mutable Barrier barrier;
};

void meet(const Meetings &meetings, const ThreadSlice &slice) {
  for (int64_t i = 0; i < meetings.n; ++i) wait_at(meetings.barrier, slice);
}

// The time of some work in nanoseconds: the minimum over many runs, to exclude interruptions.
template <typename Work>
double shortest_time(Work work) {
  double shortest = 1e18;
  for (int i = 0; i < 30; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    shortest = std::min(shortest, time.count());
  }
  return shortest;
}

double time_of_meetings(int64_t n_threads, int64_t n) {
  Meetings meetings = {n, {}};
  const auto function = do_slice<Meetings, meet>;
  return shortest_time([&] { run_in_pool(function, &meetings, n_threads, /*exactly=*/true); });
}

// A layer of zeros for measuring products.
class Zeros {
 public:
  // The time of a product of n tokens in one thread, in nanoseconds.
  double time(int64_t n, void (*multiply)(const Product &, const ThreadSlice &),
              const Format *format) {
    Linear linear = {};
    linear.format = format, linear.weight = weight.data();
    linear.zero_point_compensation = reinterpret_cast<int32_t *>(bias.data());
    linear.scales = linear.bias = bias.data();
    linear.inputs = INPUTS, linear.outputs = OUTPUTS;
    const Product product = {linear, n, 1, x.data(), y.data(), x.data()};
    return shortest_time([&] { multiply(product, {0, 1}); });
  }

  static constexpr int64_t INPUTS = 256, OUTPUTS = 512, SIZE = INPUTS * OUTPUTS, MOST = 8;

 private:
  std::vector<float> weight = std::vector<float>(SIZE), bias = std::vector<float>(OUTPUTS);
  std::vector<float> x = std::vector<float>(MOST * INPUTS), y = std::vector<float>(MOST * OUTPUTS);
};

// Measures all costs, which takes a few milliseconds.
Costs measured_costs(int64_t n_threads,
                     void (*multiply)(const Product &, const ThreadSlice &)) {
  constexpr int64_t MOST = Zeros::MOST, SIZE = Zeros::SIZE, MEETINGS = 20;
  Costs own = {};
  Zeros zeros;
  own.of_byte = zeros.time(1, multiply, &FP32) / (SIZE * sizeof(float));
  for (const Format *format : FORMATS)
    own.of_product[format->number] = zeros.time(MOST, multiply, format) / (MOST * SIZE);
  own.start = time_of_meetings(n_threads, 0);
  const auto meeting = [&](int64_t n) {
    return std::max(time_of_meetings(n, MEETINGS) - own.start, 0.0) / MEETINGS;
  };
  own.meeting_of_two = meeting(2);
  own.meeting_of_most = n_threads > 2 ? meeting(n_threads) : own.meeting_of_two;
  own.most_threads = n_threads;
  return own;
}

}  // namespace
}  // namespace fastdec
