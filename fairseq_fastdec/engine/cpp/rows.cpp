#include "rows.h"

namespace fastdec {

void Feed::take(const std::vector<std::vector<int64_t>> &blocks) {
  begins = {0};
  tokens.clear();
  for (const auto &block : blocks) {
    tokens.insert(tokens.end(), block.begin(), block.end());
    begins.push_back(int64_t(tokens.size()));
  }
  n_known.assign(blocks.size(), 0), n_certain.assign(blocks.size(), 1);
}

}  // namespace fastdec
