// Searches that keep one hypothesis for each sentence: greedy decoding and blocks.
//
// This is the loop of Stern et al. 2018 (sections 3 and 4): a block begins with a token that is
// certain, and proposals follow. Without proposals it is greedy decoding. Sentences join and leave
// while others are under way; what a sentence gets does not depend on them.

#pragma once

#include <deque>
#include <memory>

#include "drafts.h"

namespace fastdec {

// A sentence to translate.
struct Request {
  int64_t id = 0;
  std::vector<int64_t> source;  // with its EOS, without padding
  std::vector<int64_t> forced;  // the first tokens of the output
  int64_t bos = 0;              // the token before the first
  int64_t max_len = 0;          // the most tokens, without EOS
  int64_t n_waived = 0;         // --min-len is waived for this many first tokens
  // For each model [source.size(), inputs of its cross layer], where the encoder is not the
  // engine's: the source's tokens are not read then, only counted.
  std::vector<std::shared_ptr<const float>> states;
};

// A finished sentence.
struct Translation {
  int64_t id = 0;
  std::vector<int64_t> tokens;  // ending in EOS
  std::vector<float> scores;    // of each token
  std::vector<int64_t> blocks;  // how many tokens were kept at once
  int64_t invocations = 0;      // of the decoder, in which the sentence took part
};

// How proposals are accepted (sections 3 and 5).
struct Acceptance {
  enum Kind { EXACT, AMONG_BEST, DISTANCE };

  Kind kind = EXACT;
  int64_t n_best = 1;          // AMONG_BEST: the proposal is one of p_1's n best tokens (5.1)
  double distance = 0;         // DISTANCE: it is an integer at most that far from p_1's best (5.2)
  std::vector<double> values;  // DISTANCE: the integers that types stand for; NaN: none
  int64_t min_block = 1;       // so many tokens are kept whatever p_1 says of them (5.3)

  // Whether p_1's scores of the proposals are needed.
  bool asks() const { return kind != EXACT || min_block > 1; }
};

struct BlockOptions {
  Rules rules;
  Acceptance acceptance;
  Proposals proposals;
  int64_t capacity = 1;  // the most sentences that are decoded at once
};

struct Counts {
  int64_t encoder_invocations = 0, decoder_invocations = 0, row_invocations = 0;
  int64_t verified = 0;           // blocks, once for each sentence
  std::vector<int64_t> accepted;  // of how many of them the 1st, 2nd, ... proposal was kept
};

// Decodes sentences one token or one block at a time. For one thread at a time.
class BlockSearch {
 public:
  BlockSearch(Models models, BlockOptions options, Team team);

  void admit(Request request) { waiting.push_back(std::move(request)); }

  // Takes at most n steps; returns how many sentences are not finished.
  int64_t advance(int64_t n_steps);

  // The sentences that have finished since the last call.
  std::vector<Translation> finished();

  // Forgets a sentence, wherever it is; returns whether it was there.
  bool cancel(int64_t id);

  void set_threads(int64_t n) { decoder.set_threads(n); }

  Counts counts;

 private:
  // Sentences join while there is room.
  void join();
  // Puts together what each row is fed (section 3: predict).
  void propose();
  // What restricts the answers behind each token of a block.
  void restrict();
  // Rows take what is accepted of their blocks (section 3: verify and accept).
  void keep();

  // How many tokens of a row's block stay.
  int64_t accept_chain(int64_t row) const;
  int64_t accept_path(int64_t row, int64_t *path) const;
  bool is_good(int64_t row, int64_t number) const;
  // Appends a token; returns whether it ends the sentence.
  bool append(Row &row, int64_t token, float score);
  // p_1's features at the end of what stays of a row's block, from which heads go on.
  void keep_state(int64_t row, int64_t place);
  void leave(int64_t row);

  const BlockOptions options;
  Decoder decoder;
  Chooser chooser;
  std::unique_ptr<Drafter> drafter;
  std::deque<Request> waiting;
  std::vector<Row> rows;
  std::vector<Translation> done;
  Feed feed;
  Limits limits;
  Answers answers;
  std::vector<float> states;  // [n_rows, dim], of the first model
};

}  // namespace fastdec
