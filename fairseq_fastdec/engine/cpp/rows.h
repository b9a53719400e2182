// Sentences on their way through a search, and what a step feeds them.

#pragma once

#include <cstdint>
#include <vector>

#include "counts.h"

namespace fastdec {

// A sentence to translate.
struct Request {
  int64_t id = 0;
  std::vector<int64_t> source;  // with its EOS, without padding; empty: it is no text
  // What each model's encoder makes of the source, [n, dim]; empty where the models encode it.
  std::vector<std::vector<float>> states;
  std::vector<int64_t> forced;  // the first tokens of the output
  int64_t bos = 0;              // the token before the first
  int64_t max_len = 0;          // the most tokens, without EOS
  int64_t n_waived = 0;         // --min-len is waived for this many first tokens
  int64_t horizon = 0;          // of Jacobi decoding: tokens that are solved in blocks
  std::vector<int64_t> draft;   // of the output, or several, each with its EOS; empty: none
  std::vector<int64_t> types;   // that the output may use, EOS among them, ascending; empty: all
};

// A finished sentence.
struct Translation {
  int64_t id = 0;
  std::vector<int64_t> tokens;  // ending in EOS
  std::vector<float> scores;    // of each token
  std::vector<int64_t> blocks;  // how many tokens were kept at once
  int64_t invocations = 0;      // of the decoder, in which the sentence took part
};

struct BlockCounts : Counts {
  int64_t verified = 0;           // blocks, once for each sentence
  std::vector<int64_t> accepted;  // of how many of them the proposal of p_2, p_3, ... was kept
  int64_t drafted = 0;            // tokens of given drafts that were proposed
  int64_t drafted_right = 0;      // and kept
};

// A sentence under way.
struct Row {
  Request request;
  std::vector<int64_t> context;  // the token before the output, and the output
  std::vector<float> scores;
  std::vector<int64_t> blocks;
  int64_t invocations = 0;
  bool is_new = true;  // nothing has been fed

  // In blocks: the next token is certain, and not in the output yet.
  int64_t next_token = 0;
  float next_score = 0;

  // p_1's newest answers to what comes next, some of which followed wrong tokens.
  std::vector<int64_t> answers;
  // Of the request's draft: how many tokens the last block had of it, and which of its places
  // followed an output of which length.
  int64_t n_drafted = 0, draft_place = 0, draft_length = 0;
  int64_t n_learned = 0;  // tokens of the context from which n-grams were learned

  int64_t length() const { return int64_t(context.size()) - 1; }
  // How many tokens may follow the context and n more, EOS included.
  int64_t room_behind(int64_t n) const { return request.max_len + 1 - length() - n; }
};

// What a step feeds: each row's block, side by side. A block begins with tokens that are certain,
// and proposals follow them.
struct Feed {
  std::vector<int64_t> begins = {0};  // [n_rows + 1], where the blocks begin, and n
  std::vector<int64_t> tokens;        // [n]
  std::vector<int64_t> n_known;       // [n_rows], of the first ones that the row's context has
  std::vector<int64_t> n_certain;     // [n_rows], of the first ones that need no acceptance
  // Of trees: for each token [n] which one of its block it follows, and how many come before it.
  std::vector<int64_t> parents, depths;
  bool has_trees = false;

  // Lays out chains, one for each row.
  void take(const std::vector<std::vector<int64_t>> &chains);
  // The vectors hold trees, which begin with the rows' next tokens.
  void take_trees();
  // Chains replace the blocks of their rows; an empty one leaves the block as it is.
  void replace(const std::vector<std::vector<int64_t>> &chains);

  int64_t n() const { return begins.back(); }
  int64_t n_rows() const { return int64_t(begins.size()) - 1; }
  int64_t size(int64_t row) const { return begins[row + 1] - begins[row]; }
  // How many tokens of its block come before a token.
  int64_t depth(int64_t row, int64_t number) const {
    return has_trees ? depths[begins[row] + number] : number;
  }
  // Appends what leads to a token, and the token, but for its block's known tokens.
  void append_path(int64_t row, int64_t number, std::vector<int64_t> &to) const;

 private:
  void assume_nothing_known();
};

}  // namespace fastdec
