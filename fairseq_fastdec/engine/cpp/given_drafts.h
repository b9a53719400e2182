// Drafts that are given with sentences, such as earlier translations or those of a translation
// memory.
//
// The draft is proposed as long as its tokens agree with the output. After a different token, it
// continues at a position in the draft that follows the output's last tokens. Wrong drafts cost
// time, but do not change the output.

#pragma once

#include "rows.h"

namespace fastdec {

class GivenDrafts {
 public:
  // Appends the next tokens of the row's draft to the row's block, and sets row.n_drafted.
  //   block: the row's certain tokens; a new row's context already has the first one
  static void append(Row &row, std::vector<int64_t> &block);

  // Shortens the drafts of all rows to the number of tokens that maximises the expected number of
  // kept tokens per time.
  //   blocks: the blocks of the rows, with drafts at the end
  void shorten(std::vector<Row> &rows, std::vector<std::vector<int64_t>> &blocks);

  // Updates the statistics: n_right of a row's n_drafted proposals were right.
  void learn(const Row &row, int64_t n_right);

 private:
  int64_t best_number(const std::vector<Row> &rows) const;

  // Counts over all sentences so far; older ones have less weight.
  double right = 8, wrong = 0.5;
};

}  // namespace fastdec
