#include "rules.h"

#include <cfloat>
#include <cmath>

namespace fastdec {

namespace {

// With at least this number of beams per thread, threads share whole beams, and finish at about the
// same time. Otherwise they share the rows of each beam.
constexpr int64_t MANY_BEAMS = 4;

constexpr float IMPOSSIBLE = -INFINITY;

// Copies lists of tokens to a rectangle [n, most]; shorter ones are padded. Returns `most`.
int64_t lay_out(const std::vector<std::vector<int64_t>> &lists, int64_t first, int64_t n,
                int64_t filler, Buffer<int64_t> &to) {
  size_t most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, lists[first + i].size());
  to.reserve(n * int64_t(most));
  for (int64_t i = 0; i < n; ++i) {
    int64_t *const own = to.data() + i * int64_t(most);
    int64_t *const end = std::copy(lists[first + i].begin(), lists[first + i].end(), own);
    std::fill(end, own + most, filler);
  }
  return int64_t(most);
}

// Whether two outputs have the same logit in all models.
bool are_equal(const std::vector<const float *> &of_models, int64_t one, int64_t other) {
  return std::all_of(of_models.begin(), of_models.end(),
                     [&](const float *own) { return own[one] == own[other]; });
}

// Converts logits [n_types] to log-probabilities, in place.
void take_log_softmax(float *x, int64_t n_types) {
  const float largest = *std::max_element(x, x + n_types);
  double sum = 0;
  for (int64_t type = 0; type < n_types; ++type) sum += std::exp(x[type] - largest);
  const float log_sum = float(std::log(sum));
  for (int64_t type = 0; type < n_types; ++type) x[type] = x[type] - largest - log_sum;
}

// The logarithm of a mean probability. A type is not possible if it is NaN in one model.
float log_mean(const std::vector<float *> &of_models, int64_t type) {
  float largest = IMPOSSIBLE, sum = 0;
  for (const float *own : of_models) {
    if (std::isnan(own[type])) return IMPOSSIBLE;
    largest = std::max(largest, own[type]);
  }
  if (largest == IMPOSSIBLE || of_models.size() == 1) return largest;
  for (const float *own : of_models) sum += std::exp(own[type] - largest);
  return largest + std::log(sum) - std::log(float(of_models.size()));
}

}  // namespace

void Rules::find_repeats(const std::vector<int64_t> &context, std::vector<int64_t> &found) const {
  const int64_t n_before = no_repeat_ngram - 1, n = int64_t(context.size());
  if (n <= n_before) return;
  const int64_t *const all = context.data(), *const last = all + n - n_before;
  for (const int64_t *at = all; at < last; ++at)
    if (std::equal(last, last + n_before, at)) found.push_back(at[n_before]);
}

void EndLimits::clear(int64_t n) {
  no_end.assign(n, 0), only_end.assign(n, 0);
  some_no_end = some_only_end = false;
}

void EndLimits::set(int64_t state, const Rules &rules, int64_t step, const Request &sentence) {
  no_end[state] = rules.may_not_end(step, sentence.n_waived);
  only_end[state] = Rules::has_to_end(step, sentence.max_len);
  some_no_end |= no_end[state] != 0, some_only_end |= only_end[state] != 0;
}

void Limits::clear(int64_t n) {
  ends.clear(n);
  forbidden.assign(n, {});
  only.assign(n, ANY);
  some_forbidden = some_only = false;
}

void Limits::forbid_repeats(int64_t state, const Rules &rules,
                            const std::vector<int64_t> &context) {
  rules.find_repeats(context, forbidden[state]);
  some_forbidden |= !forbidden[state].empty();
}

void Chooser::choose(Decoder &decoder, int64_t n, const Limits &limits, Answers &answers) {
  const bool asks = std::any_of(answers.asked.begin(), answers.asked.end(),
                                [](int64_t token) { return token >= 0; });
  answers.tokens.resize(n), answers.scores.resize(n);
  answers.asked_scores.resize(n), answers.nth_best.resize(n);
  if (decoder.n_models() == 1 && n_best == 1)
    return choose_at_once(decoder, n, limits, asks, answers);
  for (int64_t first = 0; first < n; first += MOST_DISTRIBUTIONS)
    choose_from_logits(decoder, first, std::min(MOST_DISTRIBUTIONS, n - first), limits, asks,
                       answers);
}

const float *Chooser::states_of(Decoder &decoder, int64_t member, int64_t first, int64_t n) {
  const PreparedModel &model = decoder.model(member);
  const float *const features = decoder.features(member) + first * model.decoder.dim;
  if (!model.p1.n_heads) return features;
  Heads task = model.p1;
  task.n_threads = decoder.n_threads(), task.n = n, task.x = features;
  task.y = states.reserve(n * model.decoder.dim);
  run(task, scratch);
  return task.y;
}

void Chooser::choose_at_once(Decoder &decoder, int64_t n, const Limits &limits, bool asks,
                             Answers &answers) {
  BestToken task = {};
  task.linear = layer().linear(), task.types = layer().types_or_null();
  task.n_threads = decoder.n_threads(), task.x = states_of(decoder, 0, 0, n);
  task.n = n, task.normalize = 1;
  layer().restrict(task);
  task.temperature = rules.temperature;
  task.no_end = limits.ends.no_end_or_null(), task.only_end = limits.ends.only_end_or_null();
  if (limits.some_forbidden) {
    task.n_forbidden = lay_out(limits.forbidden, 0, n, rules.pad, forbidden);
    task.forbidden = forbidden.data();
  }
  task.scores = answers.scores.data(), task.tokens = answers.tokens.data();
  if (asks) task.asked = answers.asked.data(), task.asked_scores = answers.asked_scores.data();
  run(task, scratch);
  answers.nth_best = answers.scores;  // n_best is 1
}

std::vector<const float *> Chooser::logits_of(Decoder &decoder, int64_t first, int64_t n) {
  const int64_t n_models = decoder.n_models(), n_logits = n * layer().n_outputs();
  logits.reserve(n_models * n_logits);
  std::vector<const float *> of_models;
  for (int64_t member = 0; member < n_models; ++member) {
    Product product = {};
    product.linear = outputs.of_model(member).linear();
    product.n_threads = decoder.n_threads();
    product.n = n, product.x = states_of(decoder, member, first, n);
    product.y = logits.data() + member * n_logits;
    run(product, scratch, rules.temperature);
    of_models.push_back(product.y);
  }
  return of_models;
}

TopK Chooser::choice(const Decoder &decoder, const std::vector<const float *> &of_models,
                     int64_t first, int64_t n, const Limits &limits) {
  TopK task = {};
  task.n_rows = task.n_beams = n, task.n_types = layer().n_outputs();
  const int64_t n_scores = n * task.n_types * int64_t(of_models.size());
  task.n_threads = n_scores < FEW_SCORES ? 1 : decoder.n_threads(), task.n_parts = 1;
  layer().restrict(task);
  task.scores = of_models.data(), task.n_members = int64_t(of_models.size());
  if (limits.some_only) {
    only.reserve(n);
    for (int64_t i = 0; i < n; ++i) only[i] = layer().output_of(limits.only[first + i]);
    task.only = only.data();
  }
  task.no_end = limits.ends.no_end_or_null(first);
  task.has_to_end = limits.ends.only_end_or_null(first);
  if (limits.some_forbidden) {
    task.n_forbidden = lay_out(limits.forbidden, first, n, rules.pad, forbidden);
    for (int64_t at = 0; at < n * task.n_forbidden; ++at)
      forbidden[at] = layer().output_of(forbidden[at]);
    task.forbidden = forbidden.data();
  }
  return task;
}

void Chooser::extend(Decoder &decoder, const BeamRows &beams, int64_t n_per_row,
                     const Limits &limits, Extensions &extensions) {
  const int64_t n_beams = beams.n_beams;
  extensions.n = n_best;
  extensions.totals.resize(n_beams * n_best);
  extensions.tokens.resize(n_beams * n_best), extensions.rows.resize(n_beams * n_best);
  std::vector<int64_t> starts;
  // As many beams at a time as their distributions fit into memory.
  for (int64_t beam = 0, end = 0; beam < n_beams; beam = end) {
    const int64_t first = beams.starts[beam];
    while (end < n_beams &&
           (end == beam || beams.starts[end + 1] - first <= MOST_DISTRIBUTIONS))
      ++end;
    const int64_t n = beams.starts[end] - first;
    starts.clear();
    for (int64_t at = beam; at <= end; ++at) starts.push_back(beams.starts[at] - first);
    const std::vector<const float *> of_models = logits_of(decoder, first, n);
    TopK task = choice(decoder, of_models, first, n, limits);
    task.n_best = n_best, task.n_per_row = std::min(n_per_row, n_best);
    task.n_beams = end - beam;
    task.n_parts = task.n_beams < MANY_BEAMS * task.n_threads ? task.n_threads : 1;
    task.starts = starts.data();
    task.totals = beams.totals + first;
    task.best = extensions.totals.data() + beam * n_best;
    task.tokens = extensions.tokens.data() + beam * n_best;
    task.origins = extensions.rows.data() + beam * n_best;
    run(task, scratch);
    for (int64_t at = 0; at < task.n_beams * n_best; ++at) {
      task.tokens[at] = layer().type_of(task.tokens[at]);
      task.origins[at] += first;
    }
  }
}

const float *Chooser::log_probs(Decoder &decoder, int64_t first, int64_t n, const Limits &limits) {
  logits_of(decoder, first, n);
  const int64_t n_outputs = layer().n_outputs();
  std::vector<float *> of_state(decoder.n_models());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t member = 0; member < decoder.n_models(); ++member) {
      of_state[member] = logits.data() + (member * n + i) * n_outputs;
      take_log_softmax(of_state[member], n_outputs);
    }
    // The mean replaces the log-probabilities of the first model.
    for (int64_t at = 0; at < n_outputs; ++at) of_state[0][at] = log_mean(of_state, at);
    restrict(first + i, limits, of_state[0]);
  }
  return logits.data();
}

void Chooser::restrict(int64_t state, const Limits &limits, float *to) const {
  const auto forbid = [&](int64_t token) {
    if (const int64_t output = layer().output_of(token); output >= 0) to[output] = IMPOSSIBLE;
  };
  if (const int64_t unk = layer().output_of(rules.unk); unk >= 0) to[unk] -= rules.unk_penalty;
  for (int64_t token : rules.never) forbid(token);
  for (int64_t token : limits.forbidden[state]) forbid(token);
  if (limits.ends.may_not_end(state)) forbid(rules.eos);
  const bool has_to_end = limits.ends.has_to_end(state);
  if (!has_to_end && limits.only[state] == Limits::ANY) return;
  const int64_t only = layer().output_of(has_to_end ? rules.eos : limits.only[state]);
  // A sentence that has to end does so with any probability.
  const float least = has_to_end ? -FLT_MAX : IMPOSSIBLE;
  const float score = std::max(to[only], least);
  std::fill_n(to, layer().n_outputs(), IMPOSSIBLE);
  to[only] = score;
}

void Chooser::choose_from_logits(Decoder &decoder, int64_t first, int64_t n, const Limits &limits,
                                 bool asks, Answers &answers) {
  const std::vector<const float *> of_models = logits_of(decoder, first, n);
  TopK task = choice(decoder, of_models, first, n, limits);
  const int64_t n_models = task.n_members, n_types = task.n_types;
  const int64_t most = task.n_best = task.n_per_row = std::min(n_best, n_types);
  task.best = best_scores.reserve(n * most), task.tokens = best_outputs.reserve(n * most);
  run(task, scratch);
  std::vector<const float *> of_state(n_models);
  for (int64_t i = 0; i < n; ++i) {
    answers.scores[first + i] = best_scores[i * most];
    // If no token is possible, use the first one.
    const int64_t best = best_scores[i * most] > IMPOSSIBLE ? best_outputs[i * most] : 0;
    answers.tokens[first + i] = layer().type_of(best);
    answers.nth_best[first + i] = best_scores[i * most + most - 1];
    for (int64_t member = 0; member < n_models; ++member)
      of_state[member] = of_models[member] + i * n_types;
    if (!asks || answers.asked[first + i] < 0) continue;
    float &asked = answers.asked_scores[first + i];
    asked = asked_score(of_state, first + i, limits, answers);
    // For one of the best tokens, or an equal one, use the score by which it was ranked.
    const int64_t output = layer().output_of(answers.asked[first + i]);
    for (int64_t rank = 0; asked > IMPOSSIBLE && rank < most; ++rank)
      if (are_equal(of_state, output, best_outputs[i * most + rank]))
        asked = best_scores[i * most + rank];
  }
}

// The logarithm of the models' mean probability of an output.
float Chooser::log_prob(const std::vector<const float *> &of_models, int64_t output) const {
  const int64_t n = layer().n_outputs();
  double probability = 0;
  for (const float *own : of_models) {
    const float largest = *std::max_element(own, own + n);
    double sum = 0;
    for (int64_t at = 0; at < n; ++at) sum += std::exp(own[at] - largest);
    probability += std::exp(double(own[output]) - largest) / sum;
  }
  return float(std::log(probability / double(of_models.size())));
}

float Chooser::asked_score(const std::vector<const float *> &of_models, int64_t state,
                           const Limits &limits, const Answers &answers) const {
  const int64_t token = answers.asked[state], output = layer().output_of(token);
  const auto is_in = [&](const std::vector<int64_t> &tokens) {
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
  };
  const EndLimits &ends = limits.ends;
  if (token == rules.eos ? ends.may_not_end(state) : ends.has_to_end(state)) return IMPOSSIBLE;
  if (output < 0 || is_in(rules.never) || is_in(limits.forbidden[state])) return IMPOSSIBLE;
  if (token == answers.tokens[state]) return answers.scores[state];
  const float score = log_prob(of_models, output);
  return token == rules.unk ? score - rules.unk_penalty : score;
}

}  // namespace fastdec
