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
  void append(Row &row, std::vector<int64_t> &block) const;

  // Learns how many of a row's n_drafted proposals were right.
  void learn(const Row &row, int64_t n_right);

 private:
  // The most proposals that are all right with a probability of at least LEAST_SURE.
  int64_t n_sure() const;

  // Of all sentences so far, the older ones with less weight.
  double right = 16, wrong = 1;
};

}  // namespace fastdec
