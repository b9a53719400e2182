#include "rules.h"

#include <cfloat>
#include <cmath>
#include <queue>

namespace fastdec {

namespace {

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
  n_ranked = std::min(n_best, layer().n_outputs());
  rank(decoder, n, limits, asks ? &answers : nullptr);
  for (int64_t state = 0; state < n; ++state) {
    const int64_t at = state * n_ranked;
    answers.tokens[state] = tokens[at], answers.scores[state] = scores[at];
    answers.nth_best[state] = scores[at + n_ranked - 1];
  }
}

void Chooser::rank(Decoder &decoder, int64_t n, const Limits &limits, Answers *answers,
                   const BeamRows *beams) {
  scores.reserve(n * n_ranked), tokens.reserve(n * n_ranked);
  // The same way for every sentence, in any batch: n_ranked may depend on the shortlists.
  if (decoder.n_models() == 1 && n_best <= MOST_AT_ONCE)
    return rank_at_once(decoder, n, limits, answers);
  beam_of_row.clear();
  for (int64_t beam = 0; beams && beam < beams->n_beams; ++beam)
    beam_of_row.resize(beams->starts[beam + 1], beam);
  for (int64_t first = 0; first < n; first += MOST_DISTRIBUTIONS)
    rank_from_logits(decoder, first, std::min(MOST_DISTRIBUTIONS, n - first), limits, answers,
                     beams);
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

void Chooser::rank_at_once(Decoder &decoder, int64_t n, const Limits &limits, Answers *answers) {
  BestTokens task = {};
  task.linear = layer().linear(), task.types = layer().types_or_null();
  task.n_threads = decoder.n_threads(), task.x = states_of(decoder, 0, 0, n);
  task.n = n, task.n_best = n_ranked, task.normalize = 1;
  layer().restrict(task);
  task.temperature = rules.temperature;
  task.no_end = limits.ends.no_end_or_null(), task.only_end = limits.ends.only_end_or_null();
  if (limits.some_forbidden) {
    task.n_forbidden = lay_out(limits.forbidden, 0, n, rules.pad, forbidden);
    task.forbidden = forbidden.data();
  }
  task.scores = scores.data(), task.tokens = tokens.data();
  if (answers) task.asked = answers->asked.data(), task.asked_scores = answers->asked_scores.data();
  if (limits.some_only)
    task.asked = limits.only.data(), task.asked_scores = forced_scores.reserve(n);
  run(task, scratch);
  for (int64_t state = 0; limits.some_only && state < n; ++state) {
    if (limits.only[state] == Limits::ANY || limits.ends.has_to_end(state)) continue;
    float *const own = scores.data() + state * n_ranked;
    own[0] = forced_scores[state], tokens[state * n_ranked] = limits.only[state];
    std::fill(own + 1, own + n_ranked, IMPOSSIBLE);
  }
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

void Chooser::extend(Decoder &decoder, const BeamRows &beams, int64_t n_per_row,
                     const Limits &limits, Extensions &extensions) {
  n_ranked = std::min({n_best, n_per_row, layer().n_outputs()});
  rank(decoder, beams.n_rows, limits, nullptr, &beams);
  extensions.n = n_best;
  extensions.totals.assign(beams.n_beams * n_best, IMPOSSIBLE);
  extensions.tokens.assign(beams.n_beams * n_best, 0);
  extensions.rows.assign(beams.n_beams * n_best, 0);
  for (int64_t beam = 0; beam < beams.n_beams; ++beam) merge(beams, beam, extensions);
}

void Chooser::merge(const BeamRows &beams, int64_t beam, Extensions &extensions) const {
  // The best extension of a row that is left. Of equal ones, that of the first row is better.
  struct Next {
    float total;
    int64_t row, rank;
    bool operator<(const Next &other) const {
      return total != other.total ? total < other.total : row > other.row;
    }
  };
  std::priority_queue<Next> left;
  const auto push = [&](int64_t row, int64_t rank) {
    if (rank == n_ranked) return;
    const float total = scores[row * n_ranked + rank] + beams.totals[row];
    if (total > IMPOSSIBLE) left.push({total, row, rank});
  };
  for (int64_t row = beams.starts[beam]; row < beams.starts[beam + 1]; ++row) push(row, 0);
  for (int64_t at = beam * n_best; at < (beam + 1) * n_best && !left.empty(); ++at) {
    const Next best = left.top();
    left.pop();
    push(best.row, best.rank + 1);
    extensions.totals[at] = best.total, extensions.rows[at] = best.row;
    extensions.tokens[at] = tokens[best.row * n_ranked + best.rank];
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

void Chooser::rank_from_logits(Decoder &decoder, int64_t first, int64_t n, const Limits &limits,
                               Answers *answers, const BeamRows *beams) {
  const std::vector<const float *> of_models = logits_of(decoder, first, n);
  TopK task = {};
  task.n_rows = n, task.n_types = layer().n_outputs(), task.n_best = n_ranked;
  task.logits = of_models.data(), task.n_members = int64_t(of_models.size());
  const int64_t n_scores = n * task.n_types * task.n_members;
  task.n_threads = n_scores < FEW_SCORES ? 1 : decoder.n_threads();
  layer().restrict(task);
  if (limits.some_only) {
    only.reserve(n);
    for (int64_t i = 0; i < n; ++i) only[i] = layer().output_of(limits.only[first + i]);
    task.only = only.data();
  }
  task.no_end = limits.ends.no_end_or_null(first);
  task.only_end = limits.ends.only_end_or_null(first);
  if (limits.some_forbidden) {
    task.n_forbidden = lay_out(limits.forbidden, first, n, rules.pad, forbidden);
    for (int64_t at = 0; at < n * task.n_forbidden; ++at)
      forbidden[at] = layer().output_of(forbidden[at]);
    task.forbidden = forbidden.data();
  }
  if (beams) {
    task.beams = beam_of_row.data() + first, task.n_of_beam = n_best;
    task.totals = beams->totals + first;
  }
  task.scores = scores.data() + first * n_ranked, task.tokens = tokens.data() + first * n_ranked;
  run(task, scratch);
  std::vector<const float *> of_state(task.n_members);
  for (int64_t i = 0; answers && i < n; ++i) {
    const int64_t token = answers->asked[first + i];
    if (token < 0) continue;
    for (int64_t member = 0; member < task.n_members; ++member)
      of_state[member] = of_models[member] + i * task.n_types;
    float &asked = answers->asked_scores[first + i];
    asked = asked_score(of_state, first + i, limits, token);
    // For one of the best tokens, or an equal one, use the score by which it was ranked.
    const int64_t output = layer().output_of(token), best = i * n_ranked;
    if (output == task.tokens[best]) asked = task.scores[best];
    for (int64_t at = best; asked > IMPOSSIBLE && at < best + n_ranked; ++at)
      if (are_equal(of_state, output, task.tokens[at])) asked = task.scores[at];
  }
  for (int64_t at = 0; at < n * n_ranked; ++at) task.tokens[at] = layer().type_of(task.tokens[at]);
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
                           const Limits &limits, int64_t token) const {
  const int64_t output = layer().output_of(token);
  const auto is_in = [&](const std::vector<int64_t> &tokens) {
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
  };
  const EndLimits &ends = limits.ends;
  if (token == rules.eos ? ends.may_not_end(state) : ends.has_to_end(state)) return IMPOSSIBLE;
  if (output < 0 || is_in(rules.never) || is_in(limits.forbidden[state])) return IMPOSSIBLE;
  const float score = log_prob(of_models, output);
  return token == rules.unk ? score - rules.unk_penalty : score;
}

}  // namespace fastdec
