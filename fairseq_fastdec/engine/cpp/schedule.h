// Decides when the sentences of a beam search begin, and which of them a step expands (Yang et al.
// 2020, section 3 and appendix A.2).
//
// It only affects the time and cost of translations, not their text.

#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace fastdec {

struct ScheduleOptions {
  // The capacity in sentences, source tokens and rows; 0: no limit. The number of rows limits which
  // sentences begin only if there is no limit of sentences, but always the rows that a step expands.
  int64_t batch_size = 0, max_tokens = 0, max_beam_rows = 0;
  // Epsilon: sentences begin when at most this share of the capacity is in use.
  double refill_threshold = 0;
  // "min-length": a step expands the shortest beams, so that all rows have the same length. "fifo":
  // the longest beams come first, and the capacity of rows limits how many are expanded
  // (VAR-STR-FIFO).
  std::string stream_policy = "fifo";

  template <typename Visit>
  void each(Visit &&visit) {
    visit("batch_size", batch_size), visit("max_tokens", max_tokens);
    visit("max_beam_rows", max_beam_rows), visit("refill_threshold", refill_threshold);
    visit("stream_policy", stream_policy);
  }
};

// The part of the capacity that sentences use.
struct Load {
  double sentences = 0, source_tokens = 0, rows = 0;
};

// The number of rows of a new sentence is unknown; the mean width of beams so far is used.
class Schedule {
 public:
  // width: the maximum number of rows of a beam
  Schedule(const ScheduleOptions &options, int64_t width)
      : options(options), rows_seen(width), beams_seen(1) {}

  // Whether sentences may begin at this load.
  bool is_due(const Load &load) const { return share(load) <= options.refill_threshold; }
  // Adds one more sentence to a load, if it fits.
  bool add(int64_t source_tokens, Load &load) const {
    const Load sum = {load.sentences + 1, load.source_tokens + double(source_tokens),
                      load.rows + rows_seen / beams_seen};
    // A single sentence always fits.
    if (share(sum) > 1 && load.sentences > 0) return false;
    load = sum;
    return true;
  }

  // Chooses the beams that the next step expands, at least one. Beams are in the order in which
  // they began.
  std::vector<uint8_t> choose(const std::vector<int64_t> &lengths,
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

 private:
  // The share of the capacity that a load uses.
  double share(const Load &load) const {
    double most = 0;
    const auto add = [&](double used, int64_t limit) {
      if (limit) most = std::max(most, used / double(limit));
    };
    add(load.sentences, options.batch_size);
    add(load.source_tokens, options.max_tokens);
    if (!options.batch_size) add(load.rows, options.max_beam_rows);
    return most;
  }

  ScheduleOptions options;
  double rows_seen, beams_seen;
};

}  // namespace fastdec
