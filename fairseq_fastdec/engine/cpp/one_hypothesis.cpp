#include "one_hypothesis.h"

namespace fastdec {

std::vector<const Request *> OneHypothesis::under_way() const {
  std::vector<const Request *> requests;
  for (const Row &row : rows) requests.push_back(&row.request);
  return requests;
}

void OneHypothesis::begin(Request request) {
  rows.emplace_back();
  rows.back().context = {request.bos};
  rows.back().request = std::move(request);
  joined(int64_t(rows.size()) - 1);
}

void OneHypothesis::step() {
  propose();
  clock.count(counters.seconds.search);
  decoder.step(feed.tokens.data(), feed.begins);
  clock.count(counters.seconds.decoder);
  ++counters.decoder_invocations;
  counters.row_invocations += int64_t(rows.size());
  restrict();
  clock.count(counters.seconds.search);
  chooser.choose(decoder, feed.n(), limits, answers);
  clock.count(counters.seconds.choice);
  for (int64_t row = int64_t(rows.size()) - 1; row >= 0; --row) {
    ++rows[row].invocations;
    const bool ends = keep(row);
    rows[row].is_new = false;
    if (ends) leave(row);
  }
}

std::vector<int64_t> OneHypothesis::opening_of(const Row &row) const {
  std::vector<int64_t> tokens = {row.request.bos};
  tokens.insert(tokens.end(), row.request.forced.begin(), row.request.forced.end());
  return tokens;
}

void OneHypothesis::restrict() {
  limits.clear(feed.n());
  answers.asked.assign(feed.n(), -1);
  std::vector<int64_t> context;
  for (int64_t i = 0; i < int64_t(rows.size()); ++i) {
    const Row &row = rows[i];
    limits.add_states(feed.size(i), row.request);
    for (int64_t number = 0; number < feed.size(i); ++number) {
      const int64_t at = place(i, number);
      const int64_t step = row.length() + number + 1 - feed.n_known[i];
      limits.ends.set(at, rules, step, row.request);
      const bool is_last = number + 1 == feed.size(i);
      const bool is_forced = number + 1 < feed.n_certain[i];
      if (is_forced || (asks() && !is_last)) answers.asked[at] = feed.tokens[at + 1];
      // A prefix may repeat n-grams.
      if ((rules.no_repeat_ngram || !row.request.forbidden.empty()) && !is_forced) {
        const auto block = feed.tokens.begin() + feed.begins[i];
        context = row.context;
        context.insert(context.end(), block + feed.n_known[i], block + number + 1);
        limits.forbid(at, rules, row.request, context);
      }
    }
  }
}

int64_t OneHypothesis::append_block(int64_t i, int64_t first, int64_t last) {
  Row &row = rows[i];
  int64_t n = 0;
  for (int64_t number = first; number < last; ++number) {
    float score = row.next_score;
    if (number) {
      const int64_t before = place(i, number - 1);
      const bool was_asked = answers.asked[before] >= 0;
      score = was_asked ? answers.asked_scores[before] : answers.scores[before];
    }
    ++n;
    if (append(row, feed.tokens[place(i, number)], score)) break;
  }
  return n;
}

void OneHypothesis::keep_fed(int64_t i, int64_t n) {
  decoder.keep(i, n);
  if (!rows[i].request.return_attention) return;
  for (int64_t number = 0; number < n; ++number)
    decoder.append_attention(i, place(i, number), rows[i].attention);
}

bool OneHypothesis::append(Row &row, int64_t token, float score) {
  row.context.push_back(token);
  row.scores.push_back(score);
  return token == rules.eos;
}

void OneHypothesis::leave(int64_t i) {
  Row &row = rows[i];
  Result result;
  result.id = row.request.id, result.steps = row.invocations;
  result.blocks = std::move(row.blocks);
  Hypothesis own;
  own.tokens.assign(row.context.begin() + 1, row.context.end());
  own.total = std::accumulate(row.scores.begin(), row.scores.end(), 0.0);
  own.scores = std::move(row.scores);
  if (row.request.return_attention) {
    // Accepted tokens may have been fed that follow EOS, or EOS itself.
    own.attention = std::move(row.attention);
    own.attention.resize(own.tokens.size() * decoder.source_length(i));
  }
  result.hypotheses.push_back(std::move(own));
  done.push_back(std::move(result));
  left(i);
  decoder.remove(i);
  if (i + 1 < int64_t(rows.size())) row = std::move(rows.back());
  rows.pop_back();
}

bool OneHypothesis::drop(int64_t id) {
  for (int64_t row = 0; row < int64_t(rows.size()); ++row)
    if (rows[row].request.id == id) {
      leave(row);
      done.pop_back();
      return true;
    }
  return false;
}

}  // namespace fastdec
