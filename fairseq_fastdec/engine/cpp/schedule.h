// When the sentences of a beam search begin, and which of them a step expands: Yang et al. 2020,
// section 3 and appendix A.2.
//
// Nothing here changes what a translation is; only when it comes, and what it costs.

#pragma once

#include <cstdint>
#include <vector>

namespace fastdec {

struct ScheduleOptions {
  // How much is decoded at once; 0: any number. Rows limit what begins only if sentences have no
  // limit. No step expands more rows.
  int64_t sentences = 0, source_tokens = 0, rows = 0;
  // Epsilon: sentences begin when no more than this share of the capacity is in use.
  double refill_threshold = 0;
  // A step expands the shortest beams, so that its rows have one length. Otherwise the longest
  // beams come first, and all are expanded for which there are rows (VAR-STR-FIFO).
  bool expands_shortest = false;
};

// What sentences take of the capacity.
struct Load {
  double sentences = 0, source_tokens = 0, rows = 0;
};

// The rows of a sentence are not known before it is decoded: it counts with the mean width so far.
class Schedule {
 public:
  // width: the most rows of a beam
  Schedule(const ScheduleOptions &options, int64_t width)
      : options(options), rows_seen(width), beams_seen(1) {}

  // Whether sentences begin while so much is under way.
  bool is_due(const Load &load) const { return share(load) <= options.refill_threshold; }
  // Adds one more sentence to a load, if it fits.
  bool add(int64_t source_tokens, Load &load) const;

  // Which of the beams under way the next step expands, at least one; beams that began earlier come
  // first.
  std::vector<uint8_t> choose(const std::vector<int64_t> &lengths,
                              const std::vector<int64_t> &widths);

 private:
  // The share of the capacity that a load takes.
  double share(const Load &load) const;

  ScheduleOptions options;
  double rows_seen, beams_seen;
};

}  // namespace fastdec
