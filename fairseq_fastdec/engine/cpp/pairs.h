// Double-token decoding: beams that grow by pairs of tokens (Imamura and Sumita 2020).

#pragma once

#include "beam_search.h"

namespace fastdec {

struct PairOptions {
  int64_t width = 1;      // W = K, the most entries of a beam, and of hypotheses
  int64_t right_bos = 0;  // beside the token before the output
  int64_t capacity = 1;   // the most sentences that are decoded at once
};

// A left and a right token behind another pair. The first pair of a sentence is fed first, and is
// no part of its output.
struct Pair {
  int64_t before;  // the number of that pair
  int64_t tokens[2];
  float scores[2];
  float total;  // of all pairs up to this one
};

// A sentence under way.
struct PairBeam {
  Request request;          // what is forced are the first slots: left, right, left, ...
  std::vector<Pair> pairs;  // all that its entries ever had
  std::vector<int64_t> entries;  // the numbers of their last pairs, best first
  std::vector<Hypothesis> ended;
  int64_t steps = 0, expansions = 0;
};

// Algorithm 1. The tokens of a hypothesis are those of its slots, to which ends belong.
class PairSearch : public Loop<Request, BeamResult, BeamCounts> {
 public:
  PairSearch(Models models, Rules rules, const PairOptions &options, Team team);

 private:
  int64_t n_under_way() const override { return int64_t(beams.size()); }
  std::vector<const Request *> under_way() const override;
  int64_t n_due() override { return options.capacity - int64_t(beams.size()); }
  void begin(Request request) override;
  void step() override;
  bool drop(int64_t id) override;
  // Feeds all entries, and finds the best tokens of each on either side (DECODEBEAM).
  void expand();
  void restrict();
  // Pairs end or grow; sentences that are done leave.
  void keep();
  // Lines 7 to 20 for one sentence, whose first entry is this row; appends the rows that go on.
  void extend(PairBeam &own, int64_t first_row, std::vector<int64_t> &origins);
  // All pairs that can be among the best behind a beam's entries: `before` is an entry's place.
  std::vector<Pair> double_top_k(const PairBeam &own, int64_t first_row) const;
  bool has_end(const Pair &pair) const {
    return pair.tokens[0] == rules.eos || pair.tokens[1] == rules.eos;
  }
  // Whether two pairs end the same sentence: (token, end) and (end, token) do.
  bool end_alike(const Pair &one, const Pair &other) const;
  bool is_done(const PairBeam &own) const {
    return own.entries.empty() || int64_t(own.ended.size()) >= options.width;
  }
  // The slots of what ends with a pair, which is no entry's.
  static Hypothesis hypothesis(const PairBeam &own, const Pair &last);

  const PairOptions options;
  std::vector<PairBeam> beams;  // in the order of their rows in the decoder
  Extensions best;  // of each row's left and right side, whose numbers are 2 row and 2 row + 1
};

}  // namespace fastdec
