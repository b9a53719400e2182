#include "given_drafts.h"

#include <algorithm>
#include <cmath>

namespace fastdec {

namespace {

constexpr int64_t MOST_PROPOSALS = 32;
constexpr double LEAST_SURE = 0.4;
// Proposals and errors after which older ones count half.
constexpr double MEMORY = 500;
// The most tokens that are compared.
constexpr int64_t LONGEST_MATCH = 8;

// How many tokens before a place in a draft are the output's last ones.
int64_t n_matching(const std::vector<int64_t> &output, const std::vector<int64_t> &draft,
                   int64_t place) {
  const int64_t most = std::min({LONGEST_MATCH, place, int64_t(output.size())});
  int64_t n = 0;
  while (n < most && output[output.size() - 1 - n] == draft[place - 1 - n]) ++n;
  return n;
}

}  // namespace

void GivenDrafts::append(Row &row, std::vector<int64_t> &block) const {
  row.n_drafted = 0;
  const std::vector<int64_t> &draft = row.request.draft;
  if (draft.empty()) return;
  std::vector<int64_t> output(row.context.begin() + 1, row.context.end());
  output.insert(output.end(), block.begin() + (row.is_new ? 1 : 0), block.end());
  const int64_t length = int64_t(output.size());
  // Where the draft would go on if tokens had been replaced one by one.
  const int64_t expected = row.draft_place + length - row.draft_length;
  int64_t matching = 0, place = 0;
  for (int64_t i = 1; i < int64_t(draft.size()); ++i) {
    const int64_t n = n_matching(output, draft, i);
    const bool is_nearer = std::abs(i - expected) < std::abs(place - expected);
    if (n > matching || (n && n == matching && is_nearer)) matching = n, place = i;
  }
  // A prefix need not be in the draft.
  if (!matching && !row.is_new) return;
  row.draft_place = place, row.draft_length = length;
  // The answer to the last proposal can be the output's last token.
  const int64_t room = row.request.max_len - length;
  const int64_t n_wanted = std::clamp<int64_t>(n_sure(), matching > 1 ? matching : row.is_new,
                                               MOST_PROPOSALS);
  for (const int64_t n = std::min(n_wanted, room); row.n_drafted < n; ++row.n_drafted) {
    if (place == int64_t(draft.size())) break;
    block.push_back(draft[place++]);
  }
}

void GivenDrafts::learn(const Row &row, int64_t n_right) {
  right += double(n_right), wrong += n_right < row.n_drafted;
  if (right + wrong > MEMORY) right /= 2, wrong /= 2;
}

int64_t GivenDrafts::n_sure() const {
  if (wrong < 1e-3) return MOST_PROPOSALS;
  return int64_t(std::min(std::log(LEAST_SURE) / std::log(right / (right + wrong)), 1e3));
}

}  // namespace fastdec
