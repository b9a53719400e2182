#include "search.h"

#include "pool.h"

namespace fastdec {

namespace {

Row row_of(Request request) {
  Row row;
  row.context = {request.bos};
  row.request = std::move(request);
  return row;
}

}  // namespace

Search::Search(Models models, Rules given, int64_t n_best, int64_t capacity, Team team)
    : rules(std::move(given)),
      outputs(models, rules),
      decoder(std::move(models), team),
      capacity(capacity),
      chooser(rules, outputs, n_best) {}

int64_t Search::advance(int64_t n_steps, int64_t n_threads) {
  const Decoding decoding;
  for (; n_steps > 0; --n_steps) {
    clock = {};
    decoder.set_threads(Decoding::share(n_threads));
    join();
    if (rows.empty()) break;
    propose();
    clock.count(counters.seconds.search);
    decoder.step(feed.tokens.data(), feed.width, feed.has_trees ? feed.parents.data() : nullptr);
    clock.count(counters.seconds.decoder);
    ++counters.decoder_invocations;
    counters.row_invocations += int64_t(rows.size());
    restrict();
    clock.count(counters.seconds.search);
    chooser.choose(decoder, int64_t(feed.tokens.size()), limits, answers);
    clock.count(counters.seconds.choice);
    for (int64_t row = int64_t(rows.size()) - 1; row >= 0; --row) {
      ++rows[row].invocations;
      const bool ends = keep(row);
      rows[row].is_new = false;
      if (ends) leave(row);
    }
    clock.count(counters.seconds.search);
  }
  return int64_t(waiting.size() + rows.size());
}

void Search::join() {
  const int64_t room = capacity - int64_t(rows.size());
  const int64_t n = std::min<int64_t>(room, int64_t(waiting.size()));
  if (n <= 0) return;
  std::vector<const Request *> sentences;
  for (int64_t i = 0; i < n; ++i) sentences.push_back(&waiting[i]);
  clock.count(counters.seconds.search);
  decoder.add(sentences, rules.pad);
  clock.count(counters.seconds.encoder);
  ++counters.encoder_invocations;
  for (int64_t i = 0; i < n; ++i) {
    waiting.front().states.clear();
    rows.push_back(row_of(std::move(waiting.front())));
    waiting.pop_front();
    joined(int64_t(rows.size()) - 1);
  }
  std::vector<const std::vector<int64_t> *> types;
  for (const Row &row : rows) types.push_back(&row.request.types);
  outputs.allow(types);
}

std::vector<int64_t> Search::opening_of(const Row &row) const {
  std::vector<int64_t> tokens = {row.request.bos};
  tokens.insert(tokens.end(), row.request.forced.begin(), row.request.forced.end());
  return tokens;
}

void Search::restrict() {
  const int64_t n = int64_t(feed.tokens.size());
  limits.clear(n);
  answers.asked.assign(n, -1);
  std::vector<int64_t> context;
  for (int64_t i = 0; i < int64_t(rows.size()); ++i) {
    const Row &row = rows[i];
    for (int64_t number = 0; number < feed.n_own[i]; ++number) {
      const int64_t at = i * feed.width + number;
      const int64_t step = row.length() + feed.depth(at) + 1 - feed.n_known[i];
      limits.ends.set(at, rules, step, row.request);
      const bool is_last = number + 1 == feed.n_own[i];
      const bool is_forced = number + 1 < feed.n_certain[i];
      if (is_forced || (asks() && !is_last)) answers.asked[at] = feed.tokens[at + 1];
      // What a prefix repeats is forced nevertheless.
      if (rules.no_repeat_ngram && !is_forced) {
        context = row.context;
        feed.append_path(at, context);
        limits.forbid_repeats(at, rules, context);
      }
    }
  }
}

int64_t Search::append_block(int64_t i, int64_t first, int64_t last, const int64_t *path) {
  Row &row = rows[i];
  int64_t n = 0;
  for (int64_t number = first; number < last; ++number) {
    float score = row.next_score;
    if (number) {
      const int64_t before = place(i, number - 1, path);
      const bool was_asked = answers.asked[before] >= 0;
      score = was_asked ? answers.asked_scores[before] : answers.scores[before];
    }
    ++n;
    if (append(row, feed.tokens[place(i, number, path)], score)) break;
  }
  return n;
}

bool Search::append(Row &row, int64_t token, float score) {
  row.context.push_back(token);
  row.scores.push_back(score);
  return token == rules.eos;
}

void Search::leave(int64_t i) {
  Row &row = rows[i];
  Translation translation;
  translation.id = row.request.id, translation.invocations = row.invocations;
  translation.tokens.assign(row.context.begin() + 1, row.context.end());
  translation.scores = std::move(row.scores), translation.blocks = std::move(row.blocks);
  done.push_back(std::move(translation));
  left(i);
  decoder.remove(i);
  if (i + 1 < int64_t(rows.size())) row = std::move(rows.back());
  rows.pop_back();
}

std::vector<Translation> Search::finished() {
  std::vector<Translation> translations;
  translations.swap(done);
  return translations;
}

bool Search::cancel(int64_t id) {
  for (auto request = waiting.begin(); request != waiting.end(); ++request)
    if (request->id == id) {
      waiting.erase(request);
      return true;
    }
  for (int64_t row = 0; row < int64_t(rows.size()); ++row)
    if (rows[row].request.id == id) {
      leave(row);
      done.pop_back();
      return true;
    }
  return false;
}

}  // namespace fastdec
