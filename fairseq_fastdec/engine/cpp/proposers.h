// Proposals for the tokens after each row's next token: by prediction heads, or by guesses without
// a model.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "guesses.h"
#include "rows.h"
#include "rules.h"

namespace fastdec {

// Where proposals come from.
struct Proposals {
  // The number of heads that propose, including p_1; 1: no proposals of heads.
  int64_t decoding_block_size = 1;
  // Chains end with the token that makes them less probable than this.
  double proposal_confidence = 0;
  // No proposals while they make decoding slower, see proposal_times.h.
  bool by_time = false;
  // Without heads: the length of a block with guesses, including the next token.
  int64_t lookahead_window = 1;
  GuessOptions guesses;

  template <typename Visit>
  void each(Visit &&visit) {
    visit("decoding_block_size", decoding_block_size);
    visit("proposal_confidence", proposal_confidence), visit("by_time", by_time);
    visit("lookahead_window", lookahead_window);
    guesses.each(visit);
  }
};

// The features of p_1 at each row's last token, [n_rows, dim] for each model.
using States = std::vector<std::vector<float>>;

// The tokens of each row's block.
using Blocks = std::vector<std::vector<int64_t>>;

// Proposes tokens. Not thread-safe.
class Proposer {
 public:
  virtual ~Proposer() = default;
  // The rows' next tokens, each followed by proposals; those of new rows are ignored.
  virtual Blocks propose(Decoder &decoder, const std::vector<Row> &rows, const States &states) = 0;
  // Appends proposals to the first block of a new row.
  virtual void propose_behind(const Row &, std::vector<int64_t> &) {}
  // Called when a row has a new certain next token.
  virtual void learn(Row &) {}
  virtual void joined(Row &) {}
  virtual void left(const Row &) {}
  // The number of proposing heads, for the counts of accepted proposals.
  virtual int64_t n_proposing() const { return 0; }
};

// At least one of the models has heads if they are to propose.
std::unique_ptr<Proposer> make_proposer(const Models &models, const Rules &rules,
                                        const OutputLayers &outputs, const Proposals &proposals);

}  // namespace fastdec
