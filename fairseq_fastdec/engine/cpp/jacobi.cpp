#include "jacobi.h"

namespace fastdec {

JacobiSearch::JacobiSearch(Models models, Rules given_rules, JacobiOptions given)
    : OneHypothesis(std::move(models), std::move(given_rules), 1),
      options(std::move(given)),
      guesser(options.guesses, rules.pad) {}

void JacobiSearch::joined(int64_t row) {
  Request &request = rows[row].request;
  if (!request.horizon) {
    const double longest = double(request.max_len) + 1, a = options.parallel_len_a;
    const bool is_given = a > 0 || options.parallel_len_b >= 0;
    const double added = std::min(double(std::max<int64_t>(options.parallel_len_b, 0)), longest);
    const double h = a * double(request.n_source) + added;
    request.horizon = int64_t(is_given ? std::min(h, longest) : longest);
  }
  guesser.begin(rows[row]);
}

int64_t JacobiSearch::window_of(const Row &row, int64_t n) const {
  const int64_t to_go = row.request.horizon - row.length() - n;
  return std::clamp<int64_t>(to_go, 1, options.jacobi_block_size);
}

int64_t JacobiSearch::reach_of(const Row &row, int64_t window) const {
  if (!options.waits_behind_eos) return window;
  const auto eos = std::find(row.answers.begin(), row.answers.end(), rules.eos);
  if (eos == row.answers.end()) return window;
  return std::min<int64_t>(window, eos - row.answers.begin() + 1);
}

void JacobiSearch::propose() {
  std::vector<std::vector<int64_t>> blocks;
  std::vector<int64_t> n_certain;
  for (const Row &row : rows) {
    std::vector<int64_t> block = {row.context.back()};
    if (row.is_new) block = opening_of(row);
    const int64_t n = int64_t(block.size());
    n_certain.push_back(n);
    // Initialise: the last step's answers, followed by guesses.
    const int64_t n_guesses = reach_of(row, window_of(row, n - 1)) - 1;
    const int64_t n_answered = std::min<int64_t>(n_guesses, int64_t(row.answers.size()));
    std::vector<int64_t> context = row.context;
    context.insert(context.end(), block.begin() + 1, block.end());
    block.insert(block.end(), row.answers.begin(), row.answers.begin() + n_answered);
    block.resize(n + n_guesses, rules.pad);
    guesser.guess(row, context, block.data() + n, n_guesses, n_answered);
    blocks.push_back(std::move(block));
  }
  feed.take(blocks);
  feed.n_known.assign(rows.size(), 1);
  feed.n_certain = n_certain;
}

bool JacobiSearch::keep(int64_t i) {
  Row &row = rows[i];
  // A prefix is kept first; the answers of the window begin after its last token.
  const int64_t n_certain = feed.n_certain[i], first = feed.begins[i] + n_certain - 1;
  const int64_t n_forced = append_block(i, 1, n_certain);
  if (n_forced) row.blocks.push_back(n_forced);
  if (n_forced && row.context.back() == rules.eos) {
    keep_fed(i, n_forced);
    return true;
  }
  const int64_t reach = feed.size(i) - n_certain + 1, window = window_of(row, 0);
  const int64_t *const newest = answers.tokens.data() + first;
  // Stop: an equation is solved if all of its input tokens are right.
  int64_t n_settled = 1;
  while (n_settled < reach && feed.tokens[first + n_settled] == newest[n_settled - 1]) ++n_settled;
  const bool has_eos = std::find(newest, newest + n_settled, rules.eos) != newest + n_settled;
  const bool is_done = n_settled == window || (has_eos && options.ends_within_block);
  const int64_t n_kept = is_done ? n_settled : 0;
  keep_fed(i, n_certain - 1 + n_kept);
  int64_t n_taken = 0;
  bool ends = false;
  for (; n_taken < n_kept && !ends; ++n_taken)
    ends = append(row, newest[n_taken], answers.scores[first + n_taken]);
  if (n_taken) row.blocks.push_back(n_taken);
  if (ends) return true;
  guesser.learn(row, row.context);
  // Iterate: answers that were not taken become guesses; waiting positions keep their guesses.
  std::vector<int64_t> &known = row.answers;
  if (!options.waits_behind_eos || int64_t(known.size()) < reach) known.resize(reach);
  std::copy_n(newest, reach, known.begin());
  known.erase(known.begin(), known.begin() + n_kept);
  return false;
}

}  // namespace fastdec
