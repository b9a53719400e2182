#include "rows.h"

#include <algorithm>

namespace fastdec {

void Feed::take(const std::vector<std::vector<int64_t>> &chains) {
  has_trees = false;
  begins = {0};
  tokens.clear();
  for (const auto &chain : chains) {
    tokens.insert(tokens.end(), chain.begin(), chain.end());
    begins.push_back(int64_t(tokens.size()));
  }
  assume_nothing_known();
}

void Feed::take_trees() {
  has_trees = true;
  for (auto *of_tokens : {&tokens, &parents, &depths}) of_tokens->resize(n());
  assume_nothing_known();
}

void Feed::assume_nothing_known() {
  n_known.assign(n_rows(), 0), n_certain.assign(n_rows(), 1);
}

void Feed::replace(const std::vector<std::vector<int64_t>> &chains) {
  const Feed old = *this;
  begins = {0};
  tokens.clear(), parents.clear(), depths.clear();
  for (int64_t row = 0; row < old.n_rows(); ++row) {
    const std::vector<int64_t> &chain = chains[row];
    const int64_t first = old.begins[row], last = old.begins[row + 1];
    const auto append = [&](const std::vector<int64_t> &from, std::vector<int64_t> &to) {
      to.insert(to.end(), from.begin() + first, from.begin() + last);
    };
    if (chain.empty()) {
      append(old.tokens, tokens);
      if (has_trees) append(old.parents, parents), append(old.depths, depths);
    } else {
      tokens.insert(tokens.end(), chain.begin(), chain.end());
      for (int64_t i = 0; has_trees && i < int64_t(chain.size()); ++i)
        parents.push_back(i - 1), depths.push_back(i);
    }
    begins.push_back(int64_t(tokens.size()));
  }
}

void Feed::append_path(int64_t row, int64_t number, std::vector<int64_t> &to) const {
  const int64_t first = begins[row];
  if (!has_trees) {
    const auto block = tokens.begin() + first;
    to.insert(to.end(), block + n_known[row], block + number + 1);
    return;
  }
  const auto begin = int64_t(to.size());
  for (int64_t place = number; place >= n_known[row]; place = parents[first + place])
    to.push_back(tokens[first + place]);
  std::reverse(to.begin() + begin, to.end());
}

}  // namespace fastdec
