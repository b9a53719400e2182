// Drafts that come with their sentences: an earlier translation, or what a translation memory has.
//
// An output follows its draft as long as the tokens agree. After another token it goes on where the
// draft has the output's last tokens again, wherever that is. A wrong draft costs time, and never
// changes an output.

#pragma once

#include "rows.h"

namespace fastdec {

class GivenDrafts {
 public:
  // Appends what the row's draft has next to the row's block, and writes row.n_drafted.
  //   block: the row's certain tokens, of which a new row's context has the first
  static void append(Row &row, std::vector<int64_t> &block);

  // Shortens the drafts of all rows to the number of tokens for which a step is expected to keep
  // the most tokens for its time.
  //   blocks: of the rows, with their drafts at the end
  void shorten(std::vector<Row> &rows, std::vector<std::vector<int64_t>> &blocks);

  // Learns how many of a row's n_drafted proposals were right.
  void learn(const Row &row, int64_t n_right);

 private:
  int64_t best_number(const std::vector<Row> &rows) const;

  // Of all sentences so far, the older ones with less weight.
  double right = 8, wrong = 0.5;
};

}  // namespace fastdec
