// The sentences of a search with one hypothesis each, and the input of a step.

#pragma once

#include <cstdint>
#include <vector>

#include "request.h"

namespace fastdec {

// A sentence that is being decoded.
struct Row {
  Request request;
  std::vector<int64_t> context;  // bos and the output so far
  std::vector<float> scores;
  std::vector<float> attention;  // [tokens that the decoder keeps, n], see Hypothesis
  std::vector<int64_t> blocks;
  int64_t invocations = 0;
  bool is_new = true;  // nothing has been fed

  // In blocks: the next token, which is certain but not yet in the output.
  int64_t next_token = 0;
  float next_score = 0;

  // The latest predictions of p_1 after the output, some of which may follow wrong tokens.
  std::vector<int64_t> answers;
  // The number of tokens of the request's draft in the last block, and the position in the draft
  // that continued an output of the given length.
  int64_t n_drafted = 0, draft_place = 0, draft_length = 0;
  int64_t n_learned = 0;  // the number of tokens whose n-grams have been learned

  int64_t length() const { return int64_t(context.size()) - 1; }
};

// The input of a step: the blocks of all rows, n tokens. A block begins with certain tokens, followed
// by proposals.
struct Feed {
  std::vector<int64_t> begins = {0};  // [n_rows + 1], the index of each block's first token, and n
  std::vector<int64_t> tokens;        // [n]
  std::vector<int64_t> n_known;    // [n_rows], the number of first tokens that the context has
  std::vector<int64_t> n_certain;  // [n_rows], the number of first tokens that are not verified

  // Sets the block of each row, whose first token is certain, but not known.
  void take(const std::vector<std::vector<int64_t>> &blocks) {
    begins = {0};
    tokens.clear();
    for (const auto &block : blocks) {
      tokens.insert(tokens.end(), block.begin(), block.end());
      begins.push_back(int64_t(tokens.size()));
    }
    n_known.assign(blocks.size(), 0), n_certain.assign(blocks.size(), 1);
  }

  int64_t n() const { return begins.back(); }
  int64_t size(int64_t row) const { return begins[row + 1] - begins[row]; }
};

}  // namespace fastdec
