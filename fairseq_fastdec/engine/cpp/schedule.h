// Decides when the sentences of a beam search begin, and which of them a step expands (Yang et al.
// 2020, section 3 and appendix A.2).
//
// It only affects the time and cost of translations, not their text.

#pragma once

#include <cstdint>
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
  bool add(int64_t source_tokens, Load &load) const;

  // Chooses the beams that the next step expands, at least one. Beams are in the order in which
  // they began.
  std::vector<uint8_t> choose(const std::vector<int64_t> &lengths,
                              const std::vector<int64_t> &widths);

 private:
  // The share of the capacity that a load uses.
  double share(const Load &load) const;

  ScheduleOptions options;
  double rows_seen, beams_seen;
};

}  // namespace fastdec
