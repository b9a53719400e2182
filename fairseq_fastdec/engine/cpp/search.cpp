#include "search.h"

#include <cmath>

namespace fastdec {

namespace {

// What an opening feeds: the token before the output, and the forced tokens.
std::vector<int64_t> opening_of(const Request &request) {
  std::vector<int64_t> tokens = {request.bos};
  tokens.insert(tokens.end(), request.forced.begin(), request.forced.end());
  return tokens;
}

Row row_of(const Request &request) {
  Row row;
  row.id = request.id;
  row.max_len = request.max_len, row.n_waived = request.n_waived;
  row.context = {request.bos};
  row.opening = opening_of(request);
  return row;
}

}  // namespace

BlockSearch::BlockSearch(Models models, BlockOptions given, Team team)
    : options(std::move(given)),
      decoder(models, team),
      chooser(options.rules, options.acceptance.kind == Acceptance::AMONG_BEST
                                 ? options.acceptance.n_best
                                 : 1),
      drafter(make_drafter(*models[0], options.rules, options.proposals)) {
  const Proposals &proposals = options.proposals;
  counts.accepted.assign(std::max(proposals.n_heads - 1, proposals.n_in_tree), 0);
}

int64_t BlockSearch::advance(int64_t n_steps) {
  for (; n_steps > 0; --n_steps) {
    join();
    if (rows.empty()) break;
    propose();
    decoder.step(feed.tokens.data(), feed.width, feed.has_trees ? feed.parents.data() : nullptr);
    ++counts.decoder_invocations;
    counts.row_invocations += int64_t(rows.size());
    restrict();
    const int64_t n = int64_t(feed.tokens.size());
    const bool asks = std::any_of(answers.asked.begin(), answers.asked.end(),
                                  [](int64_t token) { return token >= 0; });
    // Section 4: the verification predicts for the next step.
    chooser.choose(decoder, n, limits, asks, answers);
    keep();
  }
  return int64_t(waiting.size() + rows.size());
}

void BlockSearch::join() {
  const int64_t room = options.capacity - int64_t(rows.size());
  const int64_t n = std::min<int64_t>(room, int64_t(waiting.size()));
  if (n <= 0) return;
  SourceBatch batch;
  batch.n = n;
  for (int64_t i = 0; i < n; ++i)
    batch.width = std::max(batch.width, int64_t(waiting[i].source.size()));
  batch.tokens.assign(n * batch.width, options.rules.pad);
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<int64_t> &source = waiting[i].source;
    std::copy(source.begin(), source.end(), batch.tokens.begin() + i * batch.width);
    batch.lengths.push_back(int64_t(source.size()));
    rows.push_back(row_of(waiting[i]));
  }
  decoder.add(batch);
  waiting.erase(waiting.begin(), waiting.begin() + n);
  states.resize(rows.size() * decoder.model(0).decoder.dim, 0);
  ++counts.encoder_invocations;
}

void BlockSearch::propose() {
  const int64_t n_rows = int64_t(rows.size());
  int64_t longest = 1;
  bool some_propose = false;
  for (const Row &row : rows) {
    longest = std::max<int64_t>(longest, int64_t(row.opening.size()));
    some_propose |= row.is_open();
  }
  if (drafter && some_propose) {
    drafter->propose(decoder, rows, states.data(), feed);
    feed.widen(n_rows, longest, options.rules.pad);
  } else {
    feed.begin(n_rows, longest, options.rules.pad);
  }
  for (int64_t i = 0; i < n_rows; ++i) {
    const Row &row = rows[i];
    if (row.is_open()) {
      if (!drafter) feed.tokens[i * feed.width] = row.next_token, feed.n_own[i] = 1;
    } else {
      feed.put_chain(i, row.opening, options.rules.pad);
    }
  }
}

void BlockSearch::restrict() {
  const Rules &rules = options.rules;
  const int64_t n = int64_t(feed.tokens.size());
  limits.clear(n);
  answers.asked.assign(n, -1);
  std::vector<int64_t> context;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &row = rows[i];
    const int64_t n_known = row.is_open() ? 0 : 1;
    for (int64_t number = 0; number < feed.n_own[i]; ++number) {
      const int64_t at = int64_t(i) * feed.width + number;
      const int64_t step = row.length() + feed.depth(at) + 1 - n_known;
      limits.no_end[at] = rules.may_not_end(step, row.n_waived);
      limits.only_end[at] = Rules::has_to_end(step, row.max_len);
      limits.some_no_end |= limits.no_end[at], limits.some_only_end |= limits.only_end[at];
      const bool is_last = number + 1 == feed.n_own[i];
      const bool is_forced = !row.is_open() && !is_last;
      if (!is_last && (is_forced || options.acceptance.asks()))
        answers.asked[at] = feed.tokens[at + 1];
      // What an opening repeats is forced nevertheless.
      if (rules.no_repeat_ngram && !is_forced) {
        context = row.context;
        feed.append_path(at, n_known, context);
        rules.find_repeats(context, limits.forbidden[at]);
        limits.some_forbidden |= !limits.forbidden[at].empty();
      }
    }
  }
}

bool BlockSearch::is_good(int64_t row, int64_t number) const {
  const int64_t at = row * feed.width + number;
  const int64_t proposal = feed.tokens[at], best = answers.tokens[at - 1];
  const Acceptance &rule = options.acceptance;
  if (!rows[row].is_open()) return true;
  if (!rule.asks()) return proposal == best;
  const float score = answers.asked_scores[at - 1];
  if (number < rule.min_block) return score > -INFINITY;
  switch (rule.kind) {
    case Acceptance::EXACT:
      return proposal == best;
    case Acceptance::AMONG_BEST:
      return score > -INFINITY && score >= answers.nth_best[at - 1];
    case Acceptance::DISTANCE:
      // NaN, the value of a type that is no integer, is within no distance.
      return proposal == best ||
             (score > -INFINITY &&
              std::abs(rule.values[proposal] - rule.values[best]) <= rule.distance);
  }
  return false;
}

int64_t BlockSearch::accept_chain(int64_t row) const {
  int64_t n = 1;
  while (n < feed.n_own[row] && is_good(row, n)) ++n;
  return n;
}

int64_t BlockSearch::accept_path(int64_t row, int64_t *path) const {
  const int64_t first = row * feed.width;
  int64_t n = 1, last = 0;
  path[0] = 0;
  // Siblings differ, so there is one at most; and what follows it has a larger index.
  for (int64_t i = 1; i < feed.width; ++i)
    if (feed.parents[first + i] == last && feed.tokens[first + i] == answers.tokens[first + last])
      path[n++] = last = i;
  return n;
}

void BlockSearch::keep() {
  std::vector<int64_t> path(feed.width);
  // Rows that leave make room for the last one, which is done with.
  for (int64_t i = int64_t(rows.size()) - 1; i >= 0; --i) {
    Row &row = rows[i];
    ++row.invocations;
    const bool is_opening = !row.is_open(), is_tree = feed.has_trees && !is_opening;
    const int64_t n_accepted = is_tree ? accept_path(i, path.data()) : accept_chain(i);
    const auto place = [&](int64_t number) {
      return i * feed.width + (is_tree ? path[number] : number);
    };
    decoder.keep(i, n_accepted, is_tree ? path.data() : nullptr);
    int64_t n_taken = 0;
    bool ends = false;
    for (int64_t number = is_opening ? 1 : 0; number < n_accepted && !ends; ++number, ++n_taken) {
      const int64_t before = number ? place(number - 1) : 0;
      float score = row.next_score;
      if (number) {
        const bool was_asked = answers.asked[before] >= 0;
        score = was_asked ? answers.asked_scores[before] : answers.scores[before];
      }
      ends = append(row, feed.tokens[place(number)], score);
    }
    if (n_taken) row.blocks.push_back(n_taken);
    if (!is_opening) {
      ++counts.verified;
      for (int64_t proposal = 0; proposal + 1 < n_taken; ++proposal) ++counts.accepted[proposal];
    }
    const int64_t last = place(n_accepted - 1);
    row.opening.clear();
    row.next_token = answers.tokens[last], row.next_score = answers.scores[last];
    if (!ends && row.next_token == options.rules.eos) {
      ends = append(row, row.next_token, row.next_score);
      row.blocks.push_back(1);
    }
    if (ends)
      leave(i);
    else
      keep_state(i, last);
  }
}

bool BlockSearch::append(Row &row, int64_t token, float score) {
  row.context.push_back(token);
  row.scores.push_back(score);
  return token == options.rules.eos;
}

void BlockSearch::keep_state(int64_t row, int64_t place) {
  if (!drafter) return;
  const int64_t dim = decoder.model(0).decoder.dim;
  std::copy_n(decoder.features(0) + place * dim, dim, states.data() + row * dim);
}

void BlockSearch::leave(int64_t i) {
  Row &row = rows[i];
  Translation translation;
  translation.id = row.id, translation.invocations = row.invocations;
  translation.tokens.assign(row.context.begin() + 1, row.context.end());
  translation.scores = std::move(row.scores), translation.blocks = std::move(row.blocks);
  done.push_back(std::move(translation));
  const int64_t dim = decoder.model(0).decoder.dim, last = int64_t(rows.size()) - 1;
  decoder.remove(i);
  if (i != last) {
    rows[i] = std::move(rows[last]);
    std::copy_n(states.data() + last * dim, dim, states.data() + i * dim);
  }
  rows.pop_back();
  states.resize(last * dim);
}

std::vector<Translation> BlockSearch::finished() {
  std::vector<Translation> translations;
  translations.swap(done);
  return translations;
}

bool BlockSearch::cancel(int64_t id) {
  for (auto request = waiting.begin(); request != waiting.end(); ++request)
    if (request->id == id) {
      waiting.erase(request);
      return true;
    }
  for (size_t row = 0; row < rows.size(); ++row)
    if (rows[row].id == id) {
      leave(int64_t(row));
      done.pop_back();
      return true;
    }
  return false;
}

}  // namespace fastdec
