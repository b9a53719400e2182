#include "blocks.h"

namespace fastdec {

BlockSearch::BlockSearch(Models models, Rules given_rules, BlockOptions options)
    : OneHypothesis(models, std::move(given_rules),
                    options.acceptance.kind() == Acceptance::AMONG_BEST
                        ? options.acceptance.acceptance_topk
                        : 1),
      acceptance(std::move(options.acceptance)),
      proposer(make_proposer(models, rules, outputs, options.proposals)),
      decides_by_time(options.proposals.by_time),
      states(models.size()) {
  counters.accepted.assign(proposer->n_proposing(), 0);
}

void BlockSearch::joined(int64_t row) {
  for (int64_t member = 0; member < decoder.n_models(); ++member)
    states[member].resize(rows.size() * dim(member), 0);
  proposer->joined(rows[row]);
}

void BlockSearch::left(int64_t row) {
  proposer->left(rows[row]);
  const int64_t last = int64_t(rows.size()) - 1;
  for (int64_t member = 0; member < decoder.n_models(); ++member) {
    std::vector<float> &own = states[member];
    std::copy_n(own.data() + last * dim(member), dim(member), own.data() + row * dim(member));
    own.resize(last * dim(member));
  }
}

void BlockSearch::step() {
  proposes = true;
  if (!decides_by_time) return OneHypothesis::step();
  ProposalTimes &of_threads = times[decoder.n_threads()];
  proposes = of_threads.propose(int64_t(rows.size()));
  n_appended = 0;
  Clock own;
  double seconds = 0;
  OneHypothesis::step();
  own.count(seconds);
  of_threads.learn(seconds, n_appended);
}

// Section 3: predict.
void BlockSearch::propose() {
  // Given drafts take precedence; the proposer proposes for the other rows.
  bool asks_proposer = false;
  Blocks blocks(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    Row &row = rows[i];
    blocks[i] = row.is_new ? opening_of(row) : std::vector<int64_t>{row.next_token};
    given.append(row, blocks[i]);
  }
  given.shorten(rows, blocks);
  const auto is_proposers = [&](const Row &row) {
    return proposes && !row.is_new && !row.n_drafted;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].is_new && !rows[i].n_drafted) proposer->propose_behind(rows[i], blocks[i]);
    asks_proposer |= is_proposers(rows[i]);
  }
  if (asks_proposer) {
    clock.count(counters.seconds.search);
    Blocks proposed = proposer->propose(decoder, rows, states);
    // The time of guesses without heads counts as search.
    if (proposer->n_proposing()) clock.count(counters.seconds.heads);
    for (size_t i = 0; i < rows.size(); ++i)
      if (is_proposers(rows[i])) blocks[i] = std::move(proposed[i]);
  }
  feed.take(blocks);
  for (size_t row = 0; row < rows.size(); ++row) {
    if (!rows[row].is_new) continue;
    feed.n_known[row] = 1;
    feed.n_certain[row] = 1 + int64_t(rows[row].request.forced.size());
  }
}

bool BlockSearch::is_good(int64_t row, int64_t number) const {
  if (number < feed.n_certain[row]) return true;
  const int64_t at = place(row, number);
  const float nth_best = acceptance.asks() ? answers.nth_best[at - 1] : 0;
  return acceptance.accepts(feed.tokens[at], number,
                            {answers.tokens[at - 1], answers.asked_scores[at - 1], nth_best});
}

int64_t BlockSearch::accept(int64_t row) const {
  int64_t n = 1;
  while (n < feed.size(row) && is_good(row, n)) ++n;
  return n;
}

// Section 3: verify and accept. Section 4: the verification predicts for the next step.
bool BlockSearch::keep(int64_t i) {
  Row &row = rows[i];
  const int64_t n_accepted = accept(i);
  keep_fed(i, n_accepted);
  const int64_t n_before = row.length();
  const int64_t n_taken = append_block(i, feed.n_known[i], n_accepted);
  bool ends = n_taken && row.context.back() == rules.eos;
  if (n_taken) row.blocks.push_back(n_taken);
  if (row.n_drafted) {
    const int64_t n_right = n_accepted - feed.n_certain[i];
    given.learn(row, n_right);
    counters.drafted += row.n_drafted, counters.drafted_right += n_right;
  } else if (!row.is_new && proposes) {
    ++counters.verified;
    const auto n_heads = int64_t(counters.accepted.size());
    for (int64_t head = 0; head < std::min(n_taken - 1, n_heads); ++head)
      ++counters.accepted[head];
  }
  const int64_t last = place(i, n_accepted - 1);
  row.next_token = answers.tokens[last], row.next_score = answers.scores[last];
  if (!ends && row.next_token == rules.eos) {
    ends = append(row, row.next_token, row.next_score);
    row.blocks.push_back(1);
  }
  n_appended += row.length() - n_before;
  if (ends) return true;
  // The answers after rejected proposals are guesses for the tokens after the next one.
  row.answers.assign(answers.tokens.begin() + last + 1,
                     answers.tokens.begin() + feed.begins[i + 1]);
  proposer->learn(row);
  for (int64_t member = 0; member < decoder.n_models(); ++member)
    std::copy_n(decoder.features(member) + last * dim(member), dim(member),
                states[member].data() + i * dim(member));
  return false;
}

}  // namespace fastdec
