// Drafts that are given with sentences, such as earlier translations or those of a translation
// memory.
//
// The draft is proposed as long as its tokens agree with the output. After a different token, it
// continues at a position in the draft that follows the output's last tokens. Wrong drafts cost
// time, but do not change the output.

#pragma once

#include <algorithm>
#include <cstdlib>

#include "rows.h"

namespace fastdec {

namespace {

constexpr int64_t MOST_PROPOSALS = 32;
// The fixed time of a step, in units of the time of a token. If the weights are read from memory,
// it is 5 to 20.
constexpr double STEP_COST = 10;
// Each step that ignores a draft adds this to the number of right proposals, so that drafts are
// tried again later.
constexpr double FORGIVEN = 0.02;
// The number of proposals and errors after which older ones are halved.
constexpr double MEMORY = 500;
// The maximum number of tokens to compare.
constexpr int64_t LONGEST_MATCH = 8;

// The number of tokens before a place in a draft that equal the output's last tokens.
inline int64_t n_matching(const std::vector<int64_t> &output, const std::vector<int64_t> &draft,
                          int64_t place) {
  const int64_t most = std::min({LONGEST_MATCH, place, int64_t(output.size())});
  int64_t n = 0;
  while (n < most && output[output.size() - 1 - n] == draft[place - 1 - n]) ++n;
  return n;
}

}  // namespace

class GivenDrafts {
 public:
  // Appends the next tokens of the row's draft to the row's block, and sets row.n_drafted.
  //   block: the row's certain tokens; a new row's context already has the first one
  static void append(Row &row, std::vector<int64_t> &block) {
    row.n_drafted = 0;
    const std::vector<int64_t> &draft = row.request.draft;
    if (draft.empty()) return;
    std::vector<int64_t> output(row.context.begin() + 1, row.context.end());
    output.insert(output.end(), block.begin() + (row.is_new ? 1 : 0), block.end());
    const int64_t length = int64_t(output.size());
    // The position in the draft if every token had been replaced by one token.
    const int64_t expected = row.draft_place + length - row.draft_length;
    int64_t matching = 0, place = 0;
    for (int64_t i = 1; i < int64_t(draft.size()); ++i) {
      const int64_t n = n_matching(output, draft, i);
      const bool is_nearer = std::abs(i - expected) < std::abs(place - expected);
      if (n > matching || (n && n == matching && is_nearer)) matching = n, place = i;
    }
    // A new row may have a prefix that is not in the draft.
    if (!matching && !row.is_new) return;
    row.draft_place = place, row.draft_length = length;
    // Leaves room for the answer to the last proposal.
    const int64_t room = std::max<int64_t>(row.request.max_len - length, 0);
    row.n_drafted = std::min({MOST_PROPOSALS, room, int64_t(draft.size()) - place});
    block.insert(block.end(), draft.begin() + place, draft.begin() + place + row.n_drafted);
  }

  // Shortens the drafts of all rows to the number of tokens that maximises the expected number of
  // kept tokens per time.
  //   blocks: the blocks of the rows, with drafts at the end
  void shorten(std::vector<Row> &rows, std::vector<std::vector<int64_t>> &blocks) {
    const int64_t most = best_number(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!most && rows[i].n_drafted) right += FORGIVEN;
      const int64_t n = std::min(most, rows[i].n_drafted);
      blocks[i].resize(blocks[i].size() - (rows[i].n_drafted - n));
      rows[i].n_drafted = n;
    }
  }

  // Updates the statistics: n_right of a row's n_drafted proposals were right.
  void learn(const Row &row, int64_t n_right) {
    right += double(n_right), wrong += n_right < row.n_drafted;
    if (right + wrong > MEMORY) right /= 2, wrong /= 2;
  }

 private:
  int64_t best_number(const std::vector<Row> &rows) const {
    const double share = right / (right + wrong);
    const auto n_rows = double(rows.size());
    double expected = n_rows, n_fed = n_rows, all_right = 1;
    double best_rate = expected / (STEP_COST + n_fed);
    int64_t best = 0;
    for (int64_t n = 1; n <= MOST_PROPOSALS; ++n) {
      const auto has_more = [n](const Row &row) { return row.n_drafted >= n; };
      const int64_t n_longer = std::count_if(rows.begin(), rows.end(), has_more);
      if (!n_longer) break;
      all_right *= share;
      expected += all_right * double(n_longer), n_fed += double(n_longer);
      const double rate = expected / (STEP_COST + n_fed);
      if (rate > best_rate) best_rate = rate, best = n;
    }
    return best;
  }

  // Counts over all sentences so far; older ones have less weight.
  double right = 8, wrong = 0.5;
};

}  // namespace fastdec
