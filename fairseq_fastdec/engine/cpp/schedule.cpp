#include "schedule.h"

#include <algorithm>
#include <numeric>

namespace fastdec {

bool Schedule::add(int64_t source_tokens, Load &load) const {
  const Load sum = {load.sentences + 1, load.source_tokens + double(source_tokens),
                    load.rows + rows_seen / beams_seen};
  // A single sentence always fits.
  if (share(sum) > 1 && load.sentences > 0) return false;
  load = sum;
  return true;
}

std::vector<uint8_t> Schedule::choose(const std::vector<int64_t> &lengths,
                                      const std::vector<int64_t> &widths) {
  std::vector<int64_t> wanted(lengths.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  if (options.stream_policy == "min-length") {
    const int64_t shortest = *std::min_element(lengths.begin(), lengths.end());
    const auto is_longer = [&](int64_t beam) { return lengths[beam] > shortest; };
    wanted.erase(std::remove_if(wanted.begin(), wanted.end(), is_longer), wanted.end());
  } else {
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&](int64_t one, int64_t other) { return lengths[one] > lengths[other]; });
  }
  std::vector<uint8_t> chosen(lengths.size(), 0);
  int64_t n_rows = 0;
  for (int64_t beam : wanted) {
    n_rows += widths[beam];
    if (options.max_beam_rows && n_rows > options.max_beam_rows) break;
    chosen[beam] = 1;
    rows_seen += double(widths[beam]), beams_seen += 1;
  }
  return chosen;
}

double Schedule::share(const Load &load) const {
  double most = 0;
  const auto add = [&](double used, int64_t limit) {
    if (limit) most = std::max(most, used / double(limit));
  };
  add(load.sentences, options.batch_size);
  add(load.source_tokens, options.max_tokens);
  if (!options.batch_size) add(load.rows, options.max_beam_rows);
  return most;
}

}  // namespace fastdec
