// Proposals of what follows each row's next token: by prediction heads, as chains or as trees, or
// from what is known without a model.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "guesses.h"
#include "rules.h"

namespace fastdec {

// Where proposals come from.
struct Proposals {
  int64_t n_heads = 1;    // that take part, p_1 among them; 1: no heads
  int64_t n_in_tree = 0;  // the most proposals of a tree; 0: chains
  // Chains, and paths of trees by sequential heads, end behind the token that makes them less
  // probable than this.
  float confidence = 0;
  // Without heads: the tokens of a block, the next one among them, that are guessed.
  int64_t window = 1;
  DraftOptions drafts;
};

// p_1's features at each row's last token, [n_rows, dim] of each model.
using States = std::vector<std::vector<float>>;

// Proposes tokens. For one thread at a time.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Writes blocks that begin with the rows' next tokens; what it writes for new rows is not read.
  virtual void propose(Decoder &decoder, const std::vector<Row> &rows, const States &states,
                       Feed &feed) = 0;
  // Appends proposals to what a new row is fed.
  virtual void propose_behind(const Row &, std::vector<int64_t> &) {}
  // A row's next token is certain now, and all that comes before it.
  virtual void learn(Row &) {}
  virtual void joined(Row &) {}
  virtual void left(const Row &) {}
  // The heads that propose, for the counts of what is accepted of each.
  virtual int64_t n_proposing() const { return 0; }
};

std::unique_ptr<Drafter> make_drafter(const PreparedModel &model, const Rules &rules,
                                      const OutputLayers &outputs, const Proposals &proposals);

}  // namespace fastdec
