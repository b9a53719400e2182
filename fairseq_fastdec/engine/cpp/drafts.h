// Proposals of what follows each row's next token: by prediction heads, as chains or as trees.

#pragma once

#include <memory>
#include <vector>

#include "rules.h"

namespace fastdec {

// A sentence under way.
struct Row {
  int64_t id = 0;
  int64_t max_len = 0, n_waived = 0;
  // The token before the output, and the output. The output's own begins at 1.
  std::vector<int64_t> context;
  std::vector<float> scores;
  std::vector<int64_t> blocks;
  int64_t invocations = 0;
  // Tokens to feed that are certain: the row has the first already, the others are forced.
  std::vector<int64_t> opening;
  // Once the opening was fed: the next token, which is certain, and is not in the output yet.
  int64_t next_token = 0;
  float next_score = 0;

  bool is_open() const { return opening.empty(); }
  int64_t length() const { return int64_t(context.size()) - 1; }
};

// What a step feeds: each row's tokens [n_rows, width].
struct Feed {
  int64_t width = 1;
  std::vector<int64_t> tokens;
  std::vector<int64_t> n_own;             // [n_rows]; behind them lies padding
  std::vector<int64_t> parents, depths;   // [n_rows, width] of trees
  bool has_trees = false;

  // Makes room for chains, all padding.
  void begin(int64_t n_rows, int64_t n, int64_t pad);
  // Makes room for longer blocks.
  void widen(int64_t n_rows, int64_t n, int64_t pad);
  // A row's block becomes a chain.
  void put_chain(int64_t row, const std::vector<int64_t> &chain, int64_t pad);
  // How many tokens of its block come before a token.
  int64_t depth(int64_t at) const { return has_trees ? depths[at] : at % width; }
  // Appends what leads to a token, and the token, but for its block's first n_known tokens.
  void append_path(int64_t at, int64_t n_known, std::vector<int64_t> &to) const;
};

// Where proposals come from.
struct Proposals {
  int64_t n_heads = 1;    // that take part, p_1 among them; 1: no proposals
  int64_t n_in_tree = 0;  // the most proposals of a tree; 0: chains
  // Sequential heads end chains that are less probable, in the mean, and paths of trees.
  float confidence = 0;
};

// Proposes tokens for rows whose states it was given. For one thread at a time.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Writes blocks that begin with the rows' next tokens.
  //   states: [n_rows, dim], p_1's features at each row's last token
  virtual void propose(Decoder &decoder, const std::vector<Row> &rows, float *states,
                       Feed &feed) = 0;
};

// Heads of the first model; nullptr without proposals.
std::unique_ptr<Drafter> make_drafter(const PreparedModel &model, const Rules &rules,
                                      const Proposals &proposals);

}  // namespace fastdec
