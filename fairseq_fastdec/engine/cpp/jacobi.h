// Greedy decoding as a system of equations that are solved in parallel (Santilli et al. 2023).
//
// Token i of the greedy output is argmax p(y_i | y_1 ... y_i-1, x): a triangular system, which
// Jacobi iterations solve exactly from any initial guess (Proposition 1).

#pragma once

#include "guesses.h"
#include "search.h"

namespace fastdec {

struct JacobiOptions {
  Rules rules;
  DraftOptions drafts;
  int64_t block_size = 1;  // the paper's b: positions that are solved in parallel
  // Whether a sentence ends as soon as EOS is settled (Algorithms 1 and 2), or only with its block
  // (Algorithm 3, line 10).
  bool ends_inside_blocks = true;
  // Whether positions after a predicted EOS wait until the prediction changes. The output is the
  // same; they are not needed if the EOS is right.
  bool waits_behind_eos = false;
  int64_t capacity = 1;
};

// A row's window has its next positions, limited by the block size and the request's horizon. A
// step feeds the last settled token and guesses for all tokens of the window except the last one,
// and gets an answer for each position. Answers that are not settled are the guesses of the next
// step.
class JacobiSearch : public Search {
 public:
  JacobiSearch(Models models, JacobiOptions options);

 protected:
  void propose() override;
  bool keep(int64_t row) override;
  void joined(int64_t row) override { guesser.begin(rows[row]); }
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
