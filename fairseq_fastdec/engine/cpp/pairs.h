// Double-token decoding: beam search with pairs of tokens (Imamura and Sumita 2020).

#pragma once

#include "pruning.h"
#include "search.h"

namespace fastdec {

// The paper prunes nothing.
struct PairOptions : Pruning {
  int64_t beam = 1;      // W = K, the maximum number of entries of a beam, and of hypotheses
  std::string token_order = "bidirectional";  // or "l2r" or "r2l", see orders/token_order.py
  int64_t right_bos = 0;  // the right token of the pair before the output
  int64_t eos = 0;        // the token that ends hypotheses; the rules' EOS ends decoding

  template <typename Visit>
  void each(Visit &&visit) {
    Pruning::each(visit);
    visit("beam", beam), visit("token_order", token_order);
    visit("right_bos", right_bos), visit("eos", eos);
  }
};

// A left and a right token that follow another pair. The first pair of a sentence is the first
// input, and not part of the output.
struct Pair {
  int64_t before;  // the index of the previous pair
  int64_t tokens[2];
  float scores[2];
  float total;  // the log-probability of all pairs up to this one
};

// A sentence that is being decoded.
struct PairBeam {
  Request request;               // forced tokens are those of the first slots
  std::vector<Pair> pairs;  // all pairs so far
  std::vector<int64_t> entries;  // the indices of the entries' last pairs, best first
  std::vector<Hypothesis> ended;  // of two pairs that end the same sentence, the better one
  float best_ended = -INFINITY;   // the best total of a pair that has ended
  int64_t n_finalized = 0;        // both of them count
  int64_t steps = 0, expansions = 0;
};

// Algorithm 1. A slot is the place of one token in the order of decoding: left, right, left, ...
class PairSearch : public Search {
 public:
  PairSearch(Models models, Rules rules, const PairOptions &options);

  bool forbids_phrases() const override { return false; }

 private:
  int64_t n_under_way() const override { return int64_t(beams.size()); }
  std::vector<const Request *> under_way() const override;
  int64_t n_due() override { return int64_t(waiting.size()); }
  void begin(Request request) override;
  void step() override;
  bool drop(int64_t id) override;
  // Feeds all entries, and computes the best left and right tokens of each (DECODEBEAM).
  void expand();
  void restrict();
  // Finalizes or extends pairs, and removes finished sentences.
  void keep();
  // Lines 7 to 20 for one sentence; appends the rows that continue to origins.
  //   first_row: the row of its first entry
  void extend(PairBeam &own, int64_t first_row, std::vector<int64_t> &origins);
  // All pairs that can be among the best extensions; `before` is the index of an entry.
  std::vector<Pair> double_top_k(const PairBeam &own, int64_t first_row) const;
  // The first M pairs of each entry that are within delta of the best one.
  std::vector<Pair> unpruned(const PairBeam &own, std::vector<Pair> pairs) const;
  bool has_end(const Pair &pair) const {
    return pair.tokens[0] == rules.eos || pair.tokens[1] == rules.eos;
  }
  // Whether two pairs end the same sentence, such as (token, end) and (end, token).
  bool end_alike(const Pair &one, const Pair &other) const;
  bool is_done(const PairBeam &own) const {
    return own.entries.empty() || own.n_finalized >= options.beam;
  }
  // The hypothesis that ends with a pair, in natural order. A token paired with an end token
  // belongs to it. The score of its EOS is the sum over all end tokens.
  Hypothesis hypothesis(const PairBeam &own, const Pair &last) const;

  const PairOptions options;
  std::vector<PairBeam> beams;  // in the order of their rows in the decoder
  Extensions best;  // of the left and right sides of each row, with indices 2 row and 2 row + 1
};

}  // namespace fastdec
