// Kernels against naive loops in double precision, for vectors of 4, 8 and 16 floats, which must give
// the same bits, and for all instruction sets; and the rules of proposal_times.h and free_cores.h.
//
// test_kernels.py compiles and runs it. Vectors that are wider than a processor's registers become
// several instructions. Instruction sets are tested if the processor has them, or if emulated.h is
// included before; the last line of the output names them.

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#if !defined(__AVX512F__)
#define FASTDEC_WIDEST_REGISTER 8
#endif

#include "attention.h"
#include "best_tokens.h"
#include "free_cores.h"
#include "instruction_sets.h"
#include "linear.h"
#include "norm.h"
#include "proposal_times.h"
#include "recurrence.h"
#include "top_k.h"

using namespace fastdec;

const InstructionSet *fastdec::instruction_set = find_instruction_set();

namespace {

std::mt19937 generator(1);

std::vector<float> random_floats(int64_t n, float least = -2, float greatest = 2) {
  std::uniform_real_distribution<float> numbers(least, greatest);
  std::vector<float> made(n);
  for (float &number : made) number = numbers(generator);
  return made;
}

// What check_close has been given.
std::vector<double> checked;

void check_close(double found, double expected, double tolerance, const char *what) {
  checked.push_back(found);
  if (std::abs(found - expected) <= tolerance * std::max(1.0, std::abs(expected))) return;
  std::printf("%s: %.9g, not %.9g\n", what, found, expected);
  std::exit(1);
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

template <typename Vec>
void test_functions() {
  for (float x = -20; x <= 20; x += 0.037f) {
    const auto first = [](Vec y) { return double(y[0]); };
    check_close(first(exponential(Vec{} - std::abs(x))) / std::exp(-std::abs(double(x))), 1, 3e-7,
                "exponential");
    check_close(first(hyperbolic_tangent(Vec{} + x)), std::tanh(double(x)), 1e-6, "tangent");
    check_close(first(gelu(Vec{} + x)), x * normal_distribution(x), 1e-6, "gelu");
    check_close(first(sigmoid(Vec{} + x)), 1 / (1 + std::exp(-double(x))), 1e-6, "sigmoid");
    const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    check_close(first(gelu_by_tangent(Vec{} + x)), 0.5 * x * (1 + std::tanh(inner)), 3e-6,
                "gelu by tangent");
  }
}

template <typename Vec>
void test_sums() {
  for (int64_t n : {1, 3, 4, 15, 16, 17, 64, 100}) {
    const auto a = random_floats(n), bias = random_floats(n), weight = random_floats(n);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[i];
    for (int64_t i = 0; i < n; ++i) squares += (a[i] - sum / n) * (a[i] - sum / n);
    check_close(mean<Vec>(a.data(), n), sum / n, 1e-5, "mean");
    check_close(sum_of_squares<Vec>(a.data(), n, float(sum / n)), squares, 1e-5, "sum_of_squares");
    std::vector<float> y(n);
    normalize<Vec>({weight.data(), bias.data(), 1e-5f}, a.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i)
      check_close(y[i], (a[i] - sum / n) / std::sqrt(squares / n + 1e-5) * weight[i] + bias[i],
                  1e-4, "normalize");
  }
}

// Sums of vectors themselves.
template <typename Vec>
void test_reductions() {
  Vec vectors[width<Vec>()];
  double sums[width<Vec>()] = {};
  for (int i = 0; i < width<Vec>(); ++i) {
    const auto numbers = random_floats(width<Vec>());
    vectors[i] = load<Vec>(numbers.data());
    for (float number : numbers) sums[i] += number;
    check_close(reduce_add(vectors[i]), sums[i], 1e-5, "reduce_add");
    check_close(reduce_max(vectors[i]), *std::max_element(numbers.begin(), numbers.end()), 0,
                "reduce_max");
  }
  const Vec reduced = reduce_each<width<Vec>()>(vectors);
  for (int i = 0; i < width<Vec>(); ++i) check_close(reduced[i], sums[i], 1e-5, "reduce_each");
}

// The place of the weight of an input and an output in a packed weight.
int64_t weight_place(const Linear &linear, int64_t input, int64_t output) {
  const int64_t group = linear.format->group;
  return ((output / BLOCK * linear.n_groups() + input / group) * BLOCK + output % BLOCK) * group +
         input % group;
}

template <typename Vec>
void test_products() {
  for (int64_t inputs : {1, 5, 32, 67})
    for (int64_t outputs : {1, 31, 32, 70, 150})
      for (int64_t n : {1, 7, 9}) {
        const int64_t n_blocks = (outputs + BLOCK - 1) / BLOCK;
        const auto weight = random_floats(n_blocks * inputs * BLOCK);
        const auto bias = random_floats(n_blocks * BLOCK), x = random_floats(n * inputs);
        Linear linear = {};
        linear.format = &FP32, linear.weight = weight.data(), linear.bias = bias.data();
        linear.inputs = inputs, linear.outputs = outputs;
        std::vector<float> y(n * outputs);
        multiply_fp32<Vec>(linear, x.data(), y.data(), n, {0, 1}, Epilogue::RELU);
        for (int64_t token = 0; token < n; ++token)
          for (int64_t output = 0; output < outputs; ++output) {
            double sum = bias[output];
            for (int64_t i = 0; i < inputs; ++i)
              sum += double(x[token * inputs + i]) * weight[weight_place(linear, i, output)];
            check_close(y[token * outputs + output], std::max(sum, 0.0), 1e-4, "multiply_fp32");
          }
      }
}

// A token's inputs in integers, and the scale by which they stand for x [inputs].
std::vector<int> integers_of(const float *x, int64_t inputs, double &scale) {
  float largest = SMALLEST_INPUT;
  for (int64_t i = 0; i < inputs; ++i) largest = std::max(largest, std::abs(x[i]));
  scale = largest / 127;
  std::vector<int> integers(inputs);
  for (int64_t i = 0; i < inputs; ++i) integers[i] = int(std::nearbyint(x[i] * (127 / largest)));
  return integers;
}

// Products in bf16 or int8 with an instruction set. They are added to what y contains.
//   is_extreme: all numbers have the largest size, so that sums of products are as large as possible
void test_rounded_products(const Format &format, const InstructionSet &set, bool is_extreme) {
  instruction_set = &set;
  for (int64_t inputs : {5, 36, 64, 128})
    for (int64_t outputs : {31, 70})
      for (int64_t n : {1, 7, 16, 45}) {
        Linear linear = {};
        linear.format = &format, linear.inputs = inputs, linear.outputs = outputs;
        const int64_t n_blocks = n_blocks_of(outputs), padded = linear.n_groups() * format.group;
        const float largest = format.has_scales ? 127 : 2;
        auto numbers = random_floats(n_blocks * padded * BLOCK, -largest, largest);
        if (is_extreme)
          for (float &number : numbers) number = number < -1.5f ? -largest : largest;
        const auto scales = random_floats(n_blocks * BLOCK), bias = random_floats(n_blocks * BLOCK);
        std::vector<int8_t> integers(numbers.begin(), numbers.end());
        std::vector<Bf16> halves(numbers.size());
        round_to(numbers.data(), halves.data(), int64_t(numbers.size()));
        std::vector<int32_t> compensation(n_blocks * BLOCK);
        for (int64_t output = 0; output < n_blocks * BLOCK; ++output)
          for (int64_t i = 0; i < padded; ++i)
            compensation[output] -= ZERO_POINT * integers[weight_place(linear, i, output)];
        linear.bias = bias.data();
        if (format.has_scales) {
          linear.weight = integers.data(), linear.scales = scales.data();
          linear.zero_point_compensation = compensation.data();
        } else {
          linear.weight = halves.data();
        }
        auto x = random_floats(n * inputs);
        if (is_extreme)
          for (float &number : x) number = number < -1.9f ? -2 : 2;
        const auto before = random_floats(n * outputs);
        std::vector<float> rounded(quantized_size(n, inputs)), y = before;
        for (int64_t token = 0; token < n; ++token)
          quantize(linear, x.data() + token * inputs, rounded.data(), token, n);
        multiply_quantized(linear, rounded.data(), y.data(), n, {0, 1}, Epilogue::ADD);
        const auto *const in_bf16 = reinterpret_cast<const Bf16 *>(rounded.data());
        for (int64_t token = 0; token < n; ++token) {
          double scale;
          const std::vector<int> in_int8 = integers_of(x.data() + token * inputs, inputs, scale);
          for (int64_t output = 0; output < outputs; ++output) {
            double sum = 0;
            for (int64_t i = 0; i < inputs; ++i) {
              const int64_t input = token * padded + i, weight = weight_place(linear, i, output);
              sum += format.has_scales ? in_int8[i] * double(integers[weight])
                                       : double(to_float(in_bf16[input])) * to_float(halves[weight]);
            }
            if (format.has_scales) sum *= scale * scales[output];
            check_close(y[token * outputs + output],
                        before[token * outputs + output] + sum + bias[output], 1e-4,
                        (std::string(set.name) + " " + format.dtype).c_str());
          }
        }
      }
}

// The recurrent unit over the new tokens of two rows, in several threads. One row has a past, in its
// own slot or in another one.
template <typename Vec>
void test_recurrence(int64_t dim, int64_t n_threads, bool is_scattered) {
  const int64_t begins[] = {0, 3, 5}, slots[] = {1, 0}, length = 6;
  int64_t past[] = {0, 2};
  const int32_t slots_of_first[] = {1, 1, 1}, slots_of_second[] = {2, 2, 0, 0};
  const int32_t *const token_slots[] = {slots_of_first, slots_of_second};
  Layer layer = {};
  Step step = {};
  step.network.dim = dim, step.network.n_layers = 1, step.network.layers = &layer;
  step.begins = begins, step.past = past, step.row_slots = slots, step.n_rows = 2;
  if (is_scattered) step.token_slots = token_slots;
  auto states = random_floats(3 * length * dim), x = random_floats(5 * dim);
  auto inputs = random_floats(5 * 2 * dim, -3, 3);
  const auto old_states = states, old_x = x;
  step.rows.data = states.data(), step.rows.slots = 3, step.rows.length = length;
  step.rows.head = step.rows.slot = length * dim;
  for (int64_t thread = 0; thread < n_threads; ++thread) {
    Workspace own = {};
    own.number = thread, own.count = n_threads, own.x = x.data(), own.queries = inputs.data();
    run_recurrence<Vec>(step, 0, own);
  }
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t i = 0; i < dim; ++i) {
      const int64_t slot = slots[row] * length * dim + i;
      const int64_t slot_of_past = is_scattered ? 2 * length * dim + i : slot;
      double state = past[row] ? old_states[slot_of_past + (past[row] - 1) * dim] : 0;
      for (int64_t at = begins[row]; at < begins[row + 1]; ++at) {
        const double forget = 1 / (1 + std::exp(-double(inputs[at * 2 * dim + dim + i])));
        state = forget * state + (1 - forget) * inputs[at * 2 * dim + i];
        const int64_t place = past[row] + at - begins[row];
        check_close(states[slot + place * dim], state, 1e-5, "state");
        check_close(x[at * dim + i], old_x[at * dim + i] + std::max(state, 0.0), 1e-5, "unit");
      }
    }
}

// Each token sees one key more than the one before.
template <typename Vec, typename Number>
void test_attention(int64_t dim, int64_t n_keys, int64_t n_queries) {
  const auto keys = random_floats(n_keys * dim), values = random_floats(n_keys * dim);
  const auto queries = random_floats(n_queries * dim);
  std::vector<Number> own_keys(n_keys * dim), own_values(n_keys * dim);
  round_to(keys.data(), own_keys.data(), n_keys * dim);
  round_to(values.data(), own_values.data(), n_keys * dim);
  std::vector<float> contexts(n_queries * dim), of_queries(MOST_QUERIES * dim);
  std::vector<float> weights(MOST_QUERIES * (n_keys + 16));
  Workspace own = {};
  own.query = of_queries.data(), own.attention_weights = weights.data(), own.n_weights = n_keys + 16;
  Attention task = {own_keys.data(), own_values.data(), nullptr, 0, std::is_same_v<Number, Bf16>,
                    dim, n_queries, queries.data(), contexts.data(), dim, dim, {}};
  for (int64_t t = 0; t < n_queries; ++t) task.n_visible[t] = n_keys - n_queries + 1 + t;
  attend_to_head<Vec>(task, own);
  for (int64_t t = 0; t < n_queries; ++t) {
    std::vector<double> powers;
    double sum = 0;
    for (int64_t key = 0; key < task.n_visible[t]; ++key) {
      double product = 0;
      for (int64_t i = 0; i < dim; ++i)
        product += double(queries[t * dim + i]) * to_float(own_keys[key * dim + i]);
      powers.push_back(std::exp(product));
      sum += powers.back();
    }
    for (int64_t i = 0; i < dim; ++i) {
      double expected = 0;
      for (int64_t key = 0; key < task.n_visible[t]; ++key)
        expected += powers[key] / sum * to_float(own_values[key * dim + i]);
      check_close(contexts[t * dim + i], expected, 1e-4, "attention");
    }
  }

  // Keys that are scattered over slots give the same bits.
  constexpr int64_t N_SLOTS = 3;
  std::vector<Number> scattered_keys(N_SLOTS * n_keys * dim), scattered_values(N_SLOTS * n_keys * dim);
  std::vector<int32_t> slots;
  for (int64_t key = 0; key < n_keys; ++key) {
    slots.push_back(int32_t(key * key % N_SLOTS));
    const int64_t place = (slots[key] * n_keys + key) * dim;
    std::copy_n(&own_keys[key * dim], dim, &scattered_keys[place]);
    std::copy_n(&own_values[key * dim], dim, &scattered_values[place]);
  }
  const std::vector<float> expected = contexts;
  contexts.assign(contexts.size(), 0);
  task.keys = scattered_keys.data(), task.values = scattered_values.data();
  task.slots = slots.data(), task.slot = n_keys * dim;
  attend_to_head<Vec>(task, own);
  for (size_t i = 0; i < contexts.size(); ++i)
    check_close(contexts[i], expected[i], 0, "attention to scattered keys");
}

// The rules of a choice: two tokens are never possible or not everywhere, one has a penalty, and the
// last state has to end. At each state, the scores of some tokens are asked for.
constexpr int64_t NEVER = 1, EOS = 2, PENALIZED = 3, N_STATES = 4, N_ASKED = 2;
constexpr int64_t ASKED[N_STATES][N_ASKED] = {{PENALIZED, 0}, {EOS, NEVER}, {7, EOS}, {EOS, 7}};
constexpr uint8_t NO_END[N_STATES] = {0, 1, 0, 0}, ONLY_END[N_STATES] = {0, 0, 0, 1};
constexpr float PENALTY = 0.5f;

// The results of a choice.
struct Chosen {
  std::vector<float> scores, asked_scores = std::vector<float>(N_STATES * N_ASKED);
  std::vector<int64_t> tokens;
};

// Sets the rules of a choice, and where its results go.
void prepare(Choice &task, int64_t n_types, int64_t n_best, Chosen &to) {
  to.scores.resize(N_STATES * n_best), to.tokens.resize(N_STATES * n_best);
  task.n = N_STATES, task.outputs = n_types, task.n_best = n_best, task.n_threads = 1;
  task.never = &NEVER, task.n_never = 1, task.eos = EOS;
  task.penalized = PENALIZED, task.penalty = PENALTY;
  task.no_end = NO_END, task.only_end = ONLY_END;
  task.scores = to.scores.data(), task.tokens = to.tokens.data();
  task.asked = ASKED[0], task.n_asked = N_ASKED, task.asked_scores = to.asked_scores.data();
}

// Checks a choice against a sort of the tokens' mean probabilities.
//   logits: of each network, [N_STATES, n_types]; with a weight, the last one is a language model
void check_choice(std::vector<std::vector<float>> logits, int64_t n_types, int64_t n_best,
                  const Chosen &chosen, const char *what, float lm_weight = 0) {
  std::vector<float> of_lm(N_STATES * n_types);
  if (lm_weight) of_lm.swap(logits.back()), logits.pop_back();
  for (int64_t state = 0; state < N_STATES; ++state) {
    std::vector<double> probabilities(n_types, 0);
    for (const std::vector<float> &of_model : logits) {
      const float *own = of_model.data() + state * n_types;
      double sum = 0;
      for (int64_t token = 0; token < n_types; ++token) sum += std::exp(double(own[token]));
      for (int64_t token = 0; token < n_types; ++token)
        probabilities[token] += std::exp(double(own[token])) / sum / double(logits.size());
    }
    double lm_sum = 0;
    for (int64_t token = 0; token < n_types; ++token)
      lm_sum += std::exp(double(of_lm[state * n_types + token]));
    std::vector<std::pair<double, int64_t>> expected;
    double asked[N_ASKED];
    std::fill_n(asked, N_ASKED, -INFINITY);
    for (int64_t token = 0; token < n_types; ++token) {
      const bool is_possible = token != NEVER && !(token == EOS && NO_END[state]);
      if (!is_possible || (token != EOS && ONLY_END[state])) continue;
      const double added = lm_weight * (of_lm[state * n_types + token] - std::log(lm_sum));
      const double score =
          std::log(probabilities[token]) + added - (token == PENALIZED ? PENALTY : 0);
      expected.push_back({score, token});
      for (int64_t number = 0; number < N_ASKED; ++number)
        if (token == ASKED[state][number]) asked[number] = score;
    }
    for (int64_t number = 0; number < N_ASKED; ++number) {
      const float asked_score = chosen.asked_scores[state * N_ASKED + number];
      if (asked[number] > -INFINITY)
        check_close(asked_score, asked[number], 1e-5, what);
      else
        check_close(asked_score == -INFINITY, true, 0, what);
    }
    std::sort(expected.rbegin(), expected.rend());
    for (int64_t rank = 0; rank < n_best; ++rank) {
      const int64_t at = state * n_best + rank;
      if (rank < int64_t(expected.size())) {
        check_close(chosen.scores[at], expected[rank].first, 1e-5, what);
        check_close(double(chosen.tokens[at]), double(expected[rank].second), 0, what);
      } else {
        check_close(chosen.scores[at] == -INFINITY, true, 0, what);
      }
    }
  }
}

template <typename Vec>
void test_best_tokens(int64_t n_types, int64_t n_best, int64_t n_threads) {
  const int64_t inputs = 5, n_blocks = n_blocks_of(n_types);
  const auto weight = random_floats(n_blocks * inputs * BLOCK), bias = random_floats(n_blocks * BLOCK);
  const auto x = random_floats(N_STATES * inputs);
  Chosen chosen;
  BestTokens task = {};
  prepare(task, n_types, n_best, chosen);
  task.linear.format = &FP32, task.linear.weight = weight.data(), task.linear.bias = bias.data();
  task.linear.inputs = inputs, task.linear.outputs = n_types;
  task.n_threads = n_threads, task.normalize = 1, task.temperature = 1, task.x = x.data();
  std::vector<float> scratch(best_tokens_scratch_size(task)), logits(N_STATES * n_types);
  task.scratch = scratch.data();
  const MultiplyFp32 multiply = [](const Linear &linear, const float *x, float *y, int64_t n,
                                   const ThreadSlice &slice, Epilogue epilogue) {
    multiply_fp32<Vec>(linear, x, y, n, slice, epilogue);
  };
  std::vector<std::thread> threads;
  for (int64_t number = 0; number < n_threads; ++number)
    threads.emplace_back([&, number] { best_tokens<Vec>(multiply, task, {number, n_threads}); });
  for (std::thread &thread : threads) thread.join();
  multiply(task.linear, x.data(), logits.data(), N_STATES, {0, 1}, Epilogue::STORE);
  check_choice({logits}, n_types, n_best, chosen, "best_tokens");
}

template <typename Vec>
void test_top_k(int64_t n_types, int64_t n_best, int64_t n_members, float lm_weight) {
  const int64_t n_networks = n_members + (lm_weight != 0);
  std::vector<std::vector<float>> logits;
  for (int64_t member = 0; member < n_networks; ++member)
    logits.push_back(random_floats(N_STATES * n_types, -5, 5));
  Chosen chosen;
  TopK task = {};
  prepare(task, n_types, n_best, chosen);
  task.n_members = n_members, task.lm_weight = lm_weight;
  std::vector<std::vector<float>> changed;
  const auto rank = [&] {
    changed = logits;
    std::vector<Product> products(n_networks);
    for (int64_t member = 0; member < n_networks; ++member)
      products[member].y = changed[member].data();
    std::vector<float> scratch(top_k_scratch_size(task));
    task.products = products.data(), task.scratch = scratch.data();
    top_k<Vec>(task, {0, 1});
  };
  rank();
  check_choice(logits, n_types, n_best, chosen, "top_k", lm_weight);

  // Beams of two rows: tokens may be missing, but not the best ones of a beam.
  const std::vector<int64_t> beams = {0, 0, 1, 1};
  const std::vector<float> before = random_floats(N_STATES, -5, 0);
  const int64_t n_of_beam = n_best + n_best / 2;
  const auto best_of = [&](int64_t beam) {
    std::vector<float> totals;
    for (int64_t at = beam * 2 * n_best; at < (beam + 1) * 2 * n_best; ++at)
      totals.push_back(chosen.scores[at] + before[at / n_best]);
    std::sort(totals.rbegin(), totals.rend());
    totals.resize(n_of_beam);
    return totals;
  };
  const std::vector<float> all[] = {best_of(0), best_of(1)};
  task.beams = beams.data(), task.n_of_beam = n_of_beam, task.totals = before.data();
  rank();
  for (int64_t beam : {0, 1}) check_close(best_of(beam) == all[beam], true, 0, "beams of top_k");

  // The log-probabilities are those by which the best tokens were ranked.
  task.beams = nullptr;
  rank();
  const Chosen ranked = chosen;
  task.all_log_probs = 1;
  rank();
  for (int64_t at = 0; at < N_STATES * n_best; ++at) {
    const float score = changed[0][at / n_best * n_types + ranked.tokens[at]];
    if (ranked.scores[at] > -INFINITY) check_close(ranked.scores[at], score, 0, "log_probs");
  }
}

// Of steps with 16 sentences, the faster way is used for all but a few.
void test_proposal_times(bool faster) {
  ProposalTimes times;
  int64_t n_faster = 0;
  for (int64_t step = 0; step < 2000; ++step) {
    const bool proposes = times.propose(16);
    n_faster += step >= 1000 && proposes == faster;
    // The process is interrupted now and then.
    const double seconds = step % 100 == 0 ? 1e3 : proposes ? faster ? 2.5 : 3.5 : 1;
    times.learn(seconds, proposes ? 3 : 1);
  }
  check_close(n_faster > 960, true, 0, "steps of the faster way");
}

// The time of 8,000 tokens, in times of steps with one token.
//   cost: the time of a token with proposals, of which three are right on average
//   way: 0 or 1 for steps that are all without or with proposals, or -1 for those that are chosen
double time_of_search(double cost, int way, uint32_t seed) {
  std::mt19937 draw(seed);
  std::normal_distribution<double> noise(0, 0.1);
  std::uniform_real_distribution<double> any(0, 1);
  std::uniform_int_distribution<int64_t> length(10, 40), accepted(1, 5);
  ProposalTimes times;
  double seconds = 0;
  for (int64_t n_tokens = 0; n_tokens < 8000;) {
    for (int64_t left = length(draw); left > 0;) {
      const bool chosen = times.propose(1);
      const bool proposes = way < 0 ? chosen : way == 1;
      const int64_t n = std::min(left, proposes ? accepted(draw) : int64_t(1));
      double step = (proposes ? 3 * cost : 1) * std::exp(noise(draw));
      step *= 1 + 0.2 * std::sin(double(n_tokens) / 900);  // the speed of the machine changes
      if (any(draw) < 0.02 * step) step += 4;              // the process is interrupted
      times.learn(step, n);
      seconds += step, n_tokens += n, left -= n;
    }
  }
  return seconds;
}

// The times of trials and of wrong choices are a small part of all.
void test_times_of_trials(double cost) {
  double mean = 0, largest = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const double best = std::min(time_of_search(cost, 0, seed), time_of_search(cost, 1, seed));
    const double lost = time_of_search(cost, -1, seed) / best - 1;
    mean += lost / 40, largest = std::max(largest, lost);
  }
  check_close(mean < 0.02, true, 0, "mean time of trials");
  check_close(largest < 0.08, true, 0, "largest time of trials");
}

// Returns all numbers that were compared.
template <typename Vec>
std::vector<double> test_all() {
  test_functions<Vec>();
  test_reductions<Vec>();
  generator.seed(1), checked.clear();
  test_sums<Vec>();
  test_products<Vec>();
  for (int64_t dim : {4, 20, 64, 67})
    for (int64_t n_threads : {1, 3})
      for (bool is_scattered : {false, true})
        test_recurrence<Vec>(dim, n_threads, is_scattered);
  for (int64_t dim : {8, 20, 32, 64})
    for (int64_t n_queries : {1, 2, 4})
      for (int64_t n_keys : {4, 17, 40}) {
        test_attention<Vec, float>(dim, n_keys, n_queries);
        test_attention<Vec, Bf16>(dim, n_keys, n_queries);
      }
  // Up to FEW_BEST tokens, and more, and all of them.
  const std::pair<int64_t, int64_t> sizes[] = {{40, 1}, {1000, 12}, {1000, 100}, {40, 40}};
  for (const auto &[n_types, n_best] : sizes)
    for (int64_t n : {1, 2}) {
      test_best_tokens<Vec>(n_types, n_best, n);
      for (float lm_weight : {0.0f, 0.7f, -0.4f})
        test_top_k<Vec>(n_types, n_best, n, lm_weight);
    }
  return checked;
}

// Calls of the same length, in milliseconds, one after the other.
struct Calls {
  FreeCores cores;
  double now = 1e6;

  // The number of threads of a call that asks for n.
  //   n_lost: how many of its threads had no core, on average
  unsigned call(unsigned n, double time, double n_lost) {
    const auto ns = [](double ms) { return int64_t(ms * 1e6); };
    n = cores.limit(n, ns(now));
    const double lost = cores.is_watched() ? time * std::min<double>(n_lost, n) : 0;
    cores.learn(n, ns(now), ns(now + time), ns(lost));
    now += time;
    return n;
  }

  // Returns after how many calls the number of threads is `wanted`.
  int until(unsigned wanted, unsigned n, double time, double n_lost) {
    for (int calls = 0; calls < 1000; ++calls)
      if (call(n, time, n_lost) == wanted) return calls;
    return -1;
  }
};

void test_free_cores() {
  const auto check = [](int found, int expected, const char *what) {
    check_close(found, expected, 0, what);
  };
  check(Calls().until(1, 2, 3, 0.4), -1, "two threads with cores");
  check(Calls().until(1, 2, 0.9, 1), -1, "short calls");
  // The first call is not watched.
  check(Calls().until(1, 2, 3, 0.7), 2, "two threads, one without a core");
  check(Calls().until(15, 16, 3, 0.5), 2, "sixteen threads, one with half a core");
  check(Calls().until(14, 16, 3, 1.5), 2, "sixteen threads, two without cores");

  Calls calls;
  calls.until(1, 2, 10, 1);
  check(calls.until(2, 2, 10, 0), 5, "a pause of 50 ms");
  check(calls.until(1, 2, 10, 1), 1, "the first call after a pause is watched");
  check(calls.until(2, 2, 10, 0), 10, "soon after the first pause, one of twice its length");
  check(calls.until(1, 2, 10, 1), 1, "after the second pause");
  check(calls.until(2, 2, 10, 0.8), -1, "while the only thread has no core");
  check(calls.until(2, 2, 10, 0), 20, "the end of the third pause");
}

// Vectors of all widths, which must give the same numbers.
void test_widths() {
  std::vector<std::vector<double>> numbers = {test_all<Vec4>()};
#if defined(__x86_64__) && !defined(FASTDEC_EMULATED)
  if (has_avx2()) numbers.push_back(test_all<Vec8>());
  if (has_avx512()) numbers.push_back(test_all<Vec16>());
#else
  numbers.push_back(test_all<Vec8>()), numbers.push_back(test_all<Vec16>());
#endif
  for (const std::vector<double> &own : numbers)
    if (own != numbers[0]) {
      std::puts("vectors of different widths give different numbers");
      std::exit(1);
    }
}

// Tests the instruction sets of the processor, or only one of them.
//   returns: the names of all
std::string test_instruction_sets(const std::string &only) {
  std::string names;
  for (const InstructionSet &set : INSTRUCTION_SETS) {
#if !defined(FASTDEC_EMULATED)
    if (!set.is_available()) continue;
#endif
    names += std::string(" ") + set.name;
    if (!only.empty() && only != set.name) continue;
    for (const Format *format : {&BF16, &INT8})
      for (bool is_extreme : {false, true}) test_rounded_products(*format, set, is_extreme);
  }
  return names;
}

}  // namespace

// All tests, or with the name of an instruction set, only those of the set.
int main(int n_arguments, char **arguments) {
  const std::string only = n_arguments > 1 ? arguments[1] : "";
  if (only.empty()) {
    test_widths();
    for (bool faster : {false, true}) test_proposal_times(faster);
    for (double cost : {0.6, 1.0, 1.25, 1.5}) test_times_of_trials(cost);
    test_free_cores();
  }
  std::printf("all kernels agree:%s\n", test_instruction_sets(only).c_str());
}
