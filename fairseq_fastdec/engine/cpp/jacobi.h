// Greedy decoding as a system of equations that are solved in parallel (Santilli et al. 2023).
//
// Token i of the greedy output is argmax p(y_i | y_1 ... y_i-1, x): a triangular system, which
// Jacobi iterations solve exactly from any initial guess (Proposition 1).

#pragma once

#include "guesses.h"
#include "one_hypothesis.h"

namespace fastdec {

struct JacobiOptions {
  GuessOptions guesses;
  int64_t jacobi_block_size = 1;  // the paper's b: positions that are solved in parallel
  // The paper's h: tokens after the first a x + b, where x is the number of source tokens, are
  // decoded one by one. Without both, none are. Negative: not given.
  double parallel_len_a = 0;
  int64_t parallel_len_b = -1;
  // Whether a sentence ends as soon as EOS is settled (Algorithms 1 and 2), or only with its block
  // (Algorithm 3, line 10).
  bool ends_within_block = true;
  // Whether positions after a predicted EOS wait until the prediction changes. The output is the
  // same; they are not needed if the EOS is right.
  bool waits_behind_eos = false;

  template <typename Visit>
  void each(Visit &&visit) {
    guesses.each(visit);
    visit("jacobi_block_size", jacobi_block_size);
    visit("parallel_len_a", parallel_len_a), visit("parallel_len_b", parallel_len_b);
    visit("ends_within_block", ends_within_block), visit("waits_behind_eos", waits_behind_eos);
  }
};

// A row's window has its next positions, limited by the block size and h. A
// step feeds the last settled token and guesses for all tokens of the window except the last one,
// and gets an answer for each position. Answers that are not settled are the guesses of the next
// step.
class JacobiSearch : public OneHypothesis {
 public:
  JacobiSearch(Models models, Rules rules, JacobiOptions options);

 protected:
  void propose() override;
  bool keep(int64_t row) override;
  void joined(int64_t row) override;
  void left(int64_t row) override { guesser.end(rows[row]); }

 private:
  // The number of positions of a row's window, after n certain tokens.
  int64_t window_of(const Row &row, int64_t n) const;
  // The number of these positions that the next step answers.
  int64_t reach_of(const Row &row, int64_t window) const;

  const JacobiOptions options;
  Guesser guesser;
};

}  // namespace fastdec
