// Greedy decoding as a system of equations, solved several at a time (Santilli et al. 2023).
//
// Token i of greedy's output is argmax p(y_i | y_1 ... y_i-1, x): a triangular system, which Jacobi
// iterations solve exactly from any first guess (Proposition 1).

#pragma once

#include "guesses.h"
#include "search.h"

namespace fastdec {

struct JacobiOptions {
  Rules rules;
  DraftOptions drafts;
  int64_t block_size = 1;  // the paper's b: positions that are solved in parallel
  // Whether EOS ends a sentence as soon as it is settled (Algorithms 1 and 2), or with its block
  // (Algorithm 3, line 10).
  bool ends_inside_blocks = true;
  // Whether positions behind an answered EOS wait until that answer changes. The output is the
  // same; if the EOS is right, nothing needs them.
  bool waits_behind_eos = false;
  int64_t capacity = 1;
};

// A row's window is its next positions, up to the block size and the request's horizon. A step feeds
// its last settled token and guesses at all tokens of the window but the last, and every position is
// answered. Answers that are not settled are the next step's guesses.
class JacobiSearch : public Search {
 public:
  JacobiSearch(Models models, JacobiOptions options, Team team);

 protected:
  void propose() override;
  bool keep(int64_t row) override;
  void joined(int64_t row) override { guesser.begin(rows[row]); }
  void left(int64_t row) override { guesser.end(rows[row]); }

 private:
  // The positions of a row's window, behind n tokens that it is certain to get.
  int64_t window_of(const Row &row, int64_t n) const;
  // How many of them are answered next.
  int64_t reach_of(const Row &row, int64_t window) const;

  const JacobiOptions options;
  Guesser guesser;
};

}  // namespace fastdec
