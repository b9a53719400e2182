#include "pairs.h"

namespace fastdec {

namespace {

// The n pairs with the largest totals, best first; for equal totals, earlier ones come first.
std::vector<Pair> best_of(const std::vector<Pair> &pairs, int64_t n) {
  std::vector<int64_t> order(pairs.size());
  std::iota(order.begin(), order.end(), 0);
  n = std::min<int64_t>(n, int64_t(order.size()));
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](int64_t one, int64_t other) {
    const float own = pairs[one].total, others = pairs[other].total;
    return own != others ? own > others : one < other;
  });
  std::vector<Pair> best;
  for (int64_t rank = 0; rank < n; ++rank) best.push_back(pairs[order[rank]]);
  return best;
}

}  // namespace

PairSearch::PairSearch(Models models, Rules given, const PairOptions &options)
    : Search(std::move(models), std::move(given), 2 * options.beam), options(options) {}

std::vector<const Request *> PairSearch::under_way() const {
  std::vector<const Request *> requests;
  for (const PairBeam &own : beams) requests.push_back(&own.request);
  return requests;
}

void PairSearch::begin(Request request) {
  PairBeam own;
  // Line 1: the beam has the first input pair.
  own.pairs.push_back({0, {request.bos, options.right_bos}, {0, 0}, 0});
  own.entries.push_back(0);
  // A prefix may contain EOS, which ends decoding; on the left, it is paired with another one.
  std::vector<int64_t> &forced = request.forced;
  std::replace(forced.begin(), forced.end(), options.eos, rules.eos);
  if (forced.size() % 2 && forced.back() == rules.eos) forced.push_back(rules.eos);
  for (size_t slot = 1; slot < forced.size(); slot += 2)
    if (forced[slot - 1] == rules.eos) forced[slot] = rules.eos;
  own.request = std::move(request);
  beams.push_back(std::move(own));
}

void PairSearch::step() {
  expand();
  keep();
}

void PairSearch::expand() {
  std::vector<int64_t> tokens;
  for (PairBeam &own : beams) {
    for (int64_t entry : own.entries)
      tokens.insert(tokens.end(), own.pairs[entry].tokens, own.pairs[entry].tokens + 2);
    ++own.steps;
    own.expansions += int64_t(own.entries.size());
  }
  clock.count(counters.seconds.search);
  decoder.step(tokens.data(), even_begins(decoder.n_rows(), 2));
  clock.count(counters.seconds.decoder);
  for (int64_t row = 0; row < decoder.n_rows(); ++row) decoder.keep(row, 2);
  ++counters.decoder_invocations;
  counters.row_invocations += decoder.n_rows();
  counters.beam_steps += int64_t(beams.size());
  restrict();
  // Each side of a row is a separate beam here.
  const int64_t n_sides = int64_t(tokens.size());
  std::vector<int64_t> starts(n_sides + 1);
  std::iota(starts.begin(), starts.end(), 0);
  const std::vector<float> nothing(n_sides, 0);
  clock.count(counters.seconds.search);
  const BeamRows sides = {n_sides, n_sides, starts.data(), nothing.data()};
  chooser.extend(decoder, sides, 2 * options.beam, limits, best);
  clock.count(counters.seconds.choice);
}

// Limits are in tokens of the natural sentence: slot n can have its n-th token. A sentence that
// ends in a left slot has at most as many tokens as there are slots before it; in a right slot, one
// more. So fairseq's rules apply to each side separately.
void PairSearch::restrict() {
  limits.clear(2 * decoder.n_rows());
  int64_t side = 0;
  for (const PairBeam &own : beams) {
    limits.add_states(2 * int64_t(own.entries.size()), own.request);
    for (int64_t end = side + 2 * int64_t(own.entries.size()); side < end; ++side) {
      const int64_t slot = 2 * (own.steps - 1) + side % 2;
      limits.ends.set(side, rules, slot, own.request);
      if (slot >= int64_t(own.request.forced.size())) continue;
      limits.only[side] = own.request.forced[slot];
      limits.some_only = true;
    }
  }
}

// The two tokens of a pair are assumed to be independent: choose the 2W best left tokens of the
// beam, then right tokens, given the scores of the left ones. The W best pairs have at most W + 1
// different right tokens of an entry, one of which may be the end.
//
// The paper takes the 3W best pairs, of which it assumes that W continue. This need not be the
// case: if a beam is certain to end, pairs with an end fill the list.
std::vector<Pair> PairSearch::double_top_k(const PairBeam &own, int64_t first_row) const {
  std::vector<Pair> lefts, pairs;
  for (int64_t place = 0; place < int64_t(own.entries.size()); ++place)
    for (int64_t rank = 0; rank < best.n; ++rank) {
      const int64_t at = 2 * (first_row + place) * best.n + rank;
      const float before = own.pairs[own.entries[place]].total, score = best.totals[at];
      if (score > -INFINITY)
        lefts.push_back({place, {best.tokens[at], 0}, {score, 0}, before + score});
    }
  for (Pair pair : best_of(lefts, 2 * options.beam)) {
    const float before = pair.total;
    for (int64_t rank = 0; rank <= options.beam; ++rank) {
      const int64_t at = (2 * (first_row + pair.before) + 1) * best.n + rank;
      pair.tokens[1] = best.tokens[at], pair.scores[1] = best.totals[at];
      pair.total = before + best.totals[at];
      if (pair.total > -INFINITY) pairs.push_back(pair);
    }
  }
  return pairs;
}

std::vector<Pair> PairSearch::unpruned(const PairBeam &own, std::vector<Pair> pairs) const {
  if (options.max_candidates < int64_t(pairs.size())) {
    std::vector<int64_t> n_of_entry(own.entries.size());
    std::vector<Pair> considered;
    for (const Pair &pair : best_of(pairs, int64_t(pairs.size())))
      if (++n_of_entry[pair.before] <= options.max_candidates) considered.push_back(pair);
    pairs.swap(considered);
  }
  float best = own.best_ended;
  for (const Pair &pair : pairs) best = std::max(best, pair.total);
  const auto is_worse = [least = best - float(options.prune_threshold)](const Pair &pair) {
    return pair.total < least;
  };
  pairs.erase(std::remove_if(pairs.begin(), pairs.end(), is_worse), pairs.end());
  return pairs;
}

bool PairSearch::end_alike(const Pair &one, const Pair &other) const {
  const auto last = [&](const Pair &pair) {
    return pair.tokens[pair.tokens[0] == rules.eos ? 1 : 0];
  };
  return has_end(one) && has_end(other) && one.before == other.before && last(one) == last(other);
}

void PairSearch::extend(PairBeam &own, int64_t first_row, std::vector<int64_t> &origins) {
  std::vector<Pair> pairs = unpruned(own, double_top_k(own, first_row));
  const std::vector<int64_t> parents = std::move(own.entries);
  own.entries.clear();
  // Lines 8 to 12: FINALIZE those of the W best pairs that have an end.
  const std::vector<Pair> leading = best_of(pairs, options.beam);
  for (auto pair = leading.begin(); pair != leading.end(); ++pair) {
    if (!has_end(*pair)) continue;
    ++own.n_finalized;
    const bool is_known = std::any_of(leading.begin(), pair, [&](const Pair &better) {
      return end_alike(better, *pair);
    });
    if (is_known) continue;
    own.best_ended = std::max(own.best_ended, pair->total);
    Pair last = *pair;
    last.before = parents[last.before];
    own.ended.push_back(hypothesis(own, last));
  }
  // Lines 13 to 20: EXPANDBEAM by the W best pairs without an end.
  const auto ends = [&](const Pair &pair) { return has_end(pair); };
  pairs.erase(std::remove_if(pairs.begin(), pairs.end(), ends), pairs.end());
  std::vector<int64_t> rows;
  for (Pair &pair : best_of(pairs, options.beam)) {
    rows.push_back(first_row + pair.before);
    pair.before = parents[pair.before];
    own.entries.push_back(int64_t(own.pairs.size()));
    own.pairs.push_back(pair);
  }
  // If the model's outputs are NaN, no pair is possible: end the sentence here.
  if (own.entries.empty() && own.ended.empty()) {
    const Pair ending = {parents[0], {rules.eos, rules.eos}, {-INFINITY, -INFINITY}, -INFINITY};
    own.ended.push_back(hypothesis(own, ending));
  }
  if (!is_done(own)) origins.insert(origins.end(), rows.begin(), rows.end());
}

Hypothesis PairSearch::hypothesis(const PairBeam &own, const Pair &last) const {
  const int64_t n_slots = 2 * own.steps;
  std::vector<int64_t> tokens(n_slots);
  std::vector<float> scores(n_slots);
  const Pair *pair = &last;
  for (int64_t slot = n_slots - 2; slot >= 0; slot -= 2) {
    std::copy_n(pair->tokens, 2, tokens.begin() + slot);
    std::copy_n(pair->scores, 2, scores.begin() + slot);
    pair = &own.pairs[pair->before];
  }
  std::vector<int64_t> slots(n_slots);
  std::iota(slots.begin(), slots.end(), 0);
  if (options.token_order == "r2l") std::reverse(slots.begin(), slots.end());
  if (options.token_order == "bidirectional") {
    // Left tokens run from the beginning, right tokens from the end.
    for (int64_t i = 0; i < own.steps; ++i) slots[i] = 2 * i, slots[n_slots - 1 - i] = 2 * i + 1;
  }
  Hypothesis made;
  double of_ends = 0;
  for (int64_t slot = 0; slot < n_slots; ++slot)
    if (tokens[slot] == rules.eos) of_ends += scores[slot];
  for (int64_t slot : slots) {
    if (tokens[slot] == rules.eos) continue;
    made.tokens.push_back(tokens[slot]), made.scores.push_back(scores[slot]);
    made.total += scores[slot];
  }
  made.tokens.push_back(options.eos), made.scores.push_back(float(of_ends));
  made.total += of_ends;
  return made;
}

void PairSearch::keep() {
  std::vector<int64_t> origins;
  std::vector<PairBeam> going_on;
  int64_t row = 0;
  for (PairBeam &own : beams) {
    const int64_t first_row = row;
    row += int64_t(own.entries.size());
    extend(own, first_row, origins);
    if (is_done(own))
      done.push_back({own.request.id, std::move(own.ended), own.steps, own.expansions, {}, {}});
    else
      going_on.push_back(std::move(own));
  }
  beams.swap(going_on);
  decoder.gather(origins);
}

bool PairSearch::drop(int64_t id) {
  int64_t row = 0;
  for (auto own = beams.begin(); own != beams.end(); ++own) {
    const int64_t n = int64_t(own->entries.size());
    if (own->request.id == id) {
      drop_rows(row, n);
      beams.erase(own);
      return true;
    }
    row += n;
  }
  return false;
}

}  // namespace fastdec
