#include "rules.h"

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
  only.assign(n, ANY), is_free.assign(n, 0), end_is_free.assign(n, 0);
  wanted.assign(n, {});
  some_forbidden = some_only = some_wanted = false;
  groups.clear();
}

void Limits::add_states(int64_t n, const Request &sentence) {
  const Outputs *const outputs = sentence.outputs.get();
  // Sentences with all types are a group together.
  if (!groups.empty() && !outputs && !groups.back().outputs)
    groups.back().n += n;
  else
    groups.push_back({groups.empty() ? 0 : groups.back().end(), n, outputs});
}

const StateGroup &Limits::group_of(int64_t state) const {
  const auto is_before = [](int64_t state, const StateGroup &group) { return state < group.end(); };
  return *std::upper_bound(groups.begin(), groups.end(), state, is_before);
}

void Limits::forbid(int64_t state, const Rules &rules, const Request &sentence,
                    const std::vector<int64_t> &context) {
  if (rules.no_repeat_ngram) rules.find_repeats(context, forbidden[state]);
  for (const Phrase &phrase : sentence.forbidden)
    // The token before the output is no part of it.
    if (phrase.size() <= context.size() &&
        std::equal(phrase.begin(), phrase.end() - 1, context.end() - (phrase.size() - 1)))
      forbidden[state].push_back(phrase.back());
  some_forbidden |= !forbidden[state].empty();
}

void Chooser::choose(Decoder &decoder, int64_t n, const Limits &limits, Answers &answers) {
  const bool asks = std::any_of(answers.asked.begin(), answers.asked.end(),
                                [](int64_t token) { return token >= 0; });
  answers.tokens.resize(n), answers.scores.resize(n);
  answers.asked_scores.resize(n), answers.nth_best.resize(n);
  n_ranked = std::min(n_best, outputs.of_models()[0].n_outputs());
  const Asked asked = {answers.asked.data(), asks, answers.asked_scores.data()};
  rank(decoder, n, limits, asked);
  for (int64_t state = 0; state < n; ++state) {
    const int64_t at = state * n_ranked;
    answers.tokens[state] = tokens[at], answers.scores[state] = scores[at];
    answers.nth_best[state] = scores[at + n_ranked - 1];
  }
}

void Chooser::rank(Decoder &decoder, int64_t n, const Limits &limits, const Asked &asked,
                   const BeamRows *beams) {
  scores.reserve(n * n_ranked), tokens.reserve(n * n_ranked);
  forbid(limits, 0, n);
  if (decoder.n_models() == 1 && !decoder.has_language_model() && n_best <= MOST_AT_ONCE) {
    const float *const states = states_of(decoder, 0, 0, n);
    choices.clear();
    for (const StateGroup &group : limits.groups) {
      BestTokens task = {};
      prepare(task, group, group.first, group.n, limits, asked);
      task.linear = layer_of(group).linear();
      task.x = states + group.first * task.linear.inputs;
      task.n_threads = decoder.n_threads();
      task.temperature = rules.temperature, task.normalize = 1;
      choices.push_back(task);
    }
    return run(choices, scratch);
  }
  beam_of_row.clear();
  for (int64_t beam = 0; beams && beam < beams->n_beams; ++beam)
    beam_of_row.resize(beams->starts[beam + 1], beam);
  for (const StateGroup &group : limits.groups)
    for (int64_t first = group.first; first < group.end(); first += MOST_DISTRIBUTIONS) {
      TopK task = {};
      const int64_t n_own = std::min(MOST_DISTRIBUTIONS, group.end() - first);
      prepare(task, group, first, n_own, limits, asked);
      if (beams) {
        task.beams = beam_of_row.data() + first, task.n_of_beam = n_best;
        task.totals = beams->totals + first;
      }
      run_from_logits(decoder, outputs_of(group), first, task);
    }
}

void Chooser::forbid(const Limits &limits, int64_t first, int64_t n) {
  if (!limits.some_forbidden) return;
  first_forbidden = first;
  n_forbidden = lay_out(limits.forbidden, first, n, rules.pad, forbidden);
}

void Chooser::prepare(Choice &choice, const StateGroup &group, int64_t first, int64_t n,
                      const Limits &limits, const Asked &asked) {
  layer_of(group).restrict(choice);
  choice.n = n, choice.n_best = n_ranked;
  choice.no_end = limits.ends.no_end_or_null(first);
  choice.only_end = limits.ends.only_end_or_null(first);
  if (limits.some_forbidden) {
    choice.n_forbidden = n_forbidden;
    choice.forbidden = forbidden.data() + (first - first_forbidden) * n_forbidden;
  }
  choice.scores = scores.data() + first * n_ranked;
  choice.tokens = tokens.data() + first * n_ranked;
  choice.n_asked = asked.n;
  if (asked.n)
    choice.asked = asked.tokens + first * asked.n, choice.asked_scores = asked.scores + first * asked.n;
}

const float *Chooser::states_of(Decoder &decoder, int64_t member, int64_t first, int64_t n) {
  const Model &model = decoder.model(member);
  const float *const features = decoder.features(member) + first * model.decoder.dim;
  if (!model.p1.n_heads) return features;
  Heads task = model.p1;
  task.n_threads = decoder.n_threads(), task.n = n, task.x = features;
  task.y = states.reserve(n * model.decoder.dim);
  run(task, scratch);
  return task.y;
}

void Chooser::run_from_logits(Decoder &decoder, const Outputs &layers, int64_t first, TopK &task) {
  std::vector<Product> products = products_with(layers, task.n, decoder.n_threads(), logits);
  for (int64_t member = 0; member < int64_t(products.size()); ++member) {
    products[member].x = states_of(decoder, member, first, task.n);
    // As in fairseq, the language model's logits are not divided.
    run(products[member], scratch, member < decoder.n_models() ? rules.temperature : 1);
  }
  task.products = products.data(), task.n_members = decoder.n_models();
  task.lm_weight = decoder.has_language_model() ? rules.lm_weight : 0;
  task.n_threads = decoder.n_threads();
  run(task, scratch);
}

void Chooser::extend(Decoder &decoder, const BeamRows &beams, int64_t max_candidates,
                     const Limits &limits, Extensions &extensions) {
  n_ranked = std::min({n_best, max_candidates, outputs.of_models()[0].n_outputs()});
  const Asked asked = asked_of_beams(beams, limits);
  // The best tokens of rows that are not merged may not be missing.
  const bool of_rows = limits.some_wanted || extensions.of_rows;
  rank(decoder, beams.n_rows, limits, asked, of_rows ? nullptr : &beams);
  for (int64_t row = 0; limits.some_only && row < beams.n_rows; ++row) {
    if (!limits.is_forced(row)) continue;
    float *const own = scores.data() + row * n_ranked;
    own[0] = limits.is_free[row] ? 0 : asked.scores[row * asked.n];
    tokens[row * n_ranked] = limits.only[row];
    std::fill(own + 1, own + n_ranked, IMPOSSIBLE);
  }
  for (int64_t row = 0; row < beams.n_rows; ++row)
    if (limits.is_free[row] && limits.ends.has_to_end(row))
      scores[row * n_ranked] = 0, tokens[row * n_ranked] = rules.eos;
  for (int64_t row = 0; row < beams.n_rows; ++row)
    if (limits.end_is_free[row]) free_end(row);
  extensions.more.assign(beams.n_beams, {});
  for (int64_t beam = 0; extensions.of_rows && beam < beams.n_beams; ++beam)
    extensions.more[beam] = of_rows_of(beams, beam);
  if (extensions.of_rows) return;
  extensions.n = n_best;
  extensions.totals.assign(beams.n_beams * n_best, IMPOSSIBLE);
  extensions.tokens.assign(beams.n_beams * n_best, 0);
  extensions.rows.assign(beams.n_beams * n_best, 0);
  for (int64_t beam = 0; beam < beams.n_beams; ++beam) merge(beams, beam, extensions);
  for (int64_t beam = 0; limits.some_wanted && beam < beams.n_beams; ++beam)
    extensions.more[beam] = more_of(beams, beam, limits, asked);
}

void Chooser::free_end(int64_t row) {
  float *const own = scores.data() + row * n_ranked;
  int64_t *const types = tokens.data() + row * n_ranked;
  int64_t place = 0;
  // Missing tokens have any type.
  while (place + 1 < n_ranked && !(types[place] == rules.eos && own[place] > IMPOSSIBLE)) ++place;
  own[place] = 0, types[place] = rules.eos;
  // A reward for the unknown token can make it better.
  for (; place && own[place - 1] < 0; --place)
    std::swap(own[place], own[place - 1]), std::swap(types[place], types[place - 1]);
}

Chooser::Asked Chooser::asked_of_beams(const BeamRows &beams, const Limits &limits) {
  if (!limits.some_only && !limits.some_wanted) return {};
  std::vector<std::vector<int64_t>> lists = limits.wanted;
  for (int64_t row = 0; row < beams.n_rows; ++row)
    if (limits.is_forced(row)) lists[row] = {limits.only[row]};
  const int64_t n = lay_out(lists, 0, beams.n_rows, -1, asked_tokens);
  return {asked_tokens.data(), n, asked_scores.reserve(beams.n_rows * n)};
}

std::vector<RowExtension> Chooser::more_of(const BeamRows &beams, int64_t beam,
                                           const Limits &limits, const Asked &asked) const {
  std::vector<RowExtension> more;
  const auto add = [&](float score, int64_t token, int64_t row) {
    if (score > IMPOSSIBLE) more.push_back({score + beams.totals[row], token, row});
  };
  for (int64_t row = beams.starts[beam]; row < beams.starts[beam + 1]; ++row) {
    const std::vector<int64_t> &wanted = limits.wanted[row];
    if (wanted.empty()) continue;
    add(scores[row * n_ranked], tokens[row * n_ranked], row);
    for (size_t number = 0; number < wanted.size(); ++number)
      add(asked.scores[row * asked.n + int64_t(number)], wanted[number], row);
  }
  return more;
}

std::vector<RowExtension> Chooser::of_rows_of(const BeamRows &beams, int64_t beam) const {
  std::vector<RowExtension> found;
  for (int64_t row = beams.starts[beam]; row < beams.starts[beam + 1]; ++row)
    for (int64_t at = row * n_ranked; at < (row + 1) * n_ranked; ++at)
      if (const float total = scores[at] + beams.totals[row]; total > IMPOSSIBLE)
        found.push_back({total, tokens[at], row});
  return found;
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
  const StateGroup &group = limits.group_of(first);
  TopK task = {};
  forbid(limits, first, n);
  prepare(task, group, first, n, limits, {});
  task.all_log_probs = 1;
  run_from_logits(decoder, outputs_of(group), first, task);
  const OutputLayer &layer = layer_of(group);
  const int64_t n_outputs = layer.n_outputs();
  for (int64_t row = first; limits.some_only && row < first + n; ++row) {
    if (!limits.is_forced(row)) continue;
    float *const own = logits.data() + (row - first) * n_outputs;
    const int64_t only = layer.output_of(limits.only[row]);
    const float score = own[only];
    std::fill_n(own, n_outputs, IMPOSSIBLE);
    own[only] = score;
  }
  return logits.data();
}

}  // namespace fastdec
