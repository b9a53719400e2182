#include "rows.h"

#include <algorithm>

namespace fastdec {

void Feed::take(const std::vector<std::vector<int64_t>> &chains, int64_t pad) {
  const size_t n_rows = chains.size();
  width = 1;
  for (const auto &chain : chains) width = std::max(width, int64_t(chain.size()));
  has_trees = false;
  tokens.resize(n_rows * width);
  n_own.assign(n_rows, 0), n_known.assign(n_rows, 0), n_certain.assign(n_rows, 1);
  for (size_t row = 0; row < n_rows; ++row) put_chain(int64_t(row), chains[row], pad);
}

void Feed::widen(int64_t n, int64_t pad) {
  if (n <= width) return;
  const auto widened = [&](const std::vector<int64_t> &own, int64_t filler) {
    std::vector<int64_t> wide(n_rows() * n, filler);
    for (int64_t row = 0; row < n_rows(); ++row)
      std::copy_n(own.begin() + row * width, width, wide.begin() + row * n);
    return wide;
  };
  tokens = widened(tokens, pad);
  // Padding follows the root, where no path goes on.
  if (has_trees) parents = widened(parents, 0), depths = widened(depths, 1);
  width = n;
}

void Feed::put_chain(int64_t row, const std::vector<int64_t> &chain, int64_t pad) {
  const int64_t first = row * width;
  n_own[row] = int64_t(chain.size());
  for (int64_t i = 0; i < width; ++i) {
    const bool is_own = i < n_own[row];
    tokens[first + i] = is_own ? chain[i] : pad;
    if (has_trees) parents[first + i] = is_own ? i - 1 : 0, depths[first + i] = is_own ? i : 1;
  }
}

void Feed::take_trees(int64_t n_rows, int64_t n) {
  width = n;
  has_trees = true;
  tokens.resize(n_rows * n), parents.resize(n_rows * n), depths.resize(n_rows * n);
  n_own.assign(n_rows, n), n_known.assign(n_rows, 0), n_certain.assign(n_rows, 1);
}

void Feed::append_path(int64_t at, std::vector<int64_t> &to) const {
  const int64_t row = at / width, first = row * width;
  if (!has_trees) {
    to.insert(to.end(), tokens.begin() + first + n_known[row], tokens.begin() + at + 1);
    return;
  }
  const auto begin = int64_t(to.size());
  for (int64_t place = at - first; place >= n_known[row]; place = parents[first + place])
    to.push_back(tokens[first + place]);
  std::reverse(to.begin() + begin, to.end());
}

}  // namespace fastdec
