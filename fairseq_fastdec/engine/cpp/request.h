// A sentence on its way into a search, and on its way out.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "constraints.h"

namespace fastdec {

class OutputLayer;

// The output layers of all models, for all types or for those of a shortlist.
using Outputs = std::vector<OutputLayer>;

// A sentence to translate.
struct Request {
  int64_t id = 0;
  std::vector<int64_t> source;  // with EOS, without padding; empty if only states are given
  // The states of each model's encoder, [n, dim]; empty if the engine encodes the source.
  std::vector<std::vector<float>> states;
  int64_t n_source = 0;         // the number of tokens or frames of the source
  std::vector<int64_t> forced;  // the first tokens of the output
  int64_t bos = 0;              // the decoder's first input token
  int64_t max_len = 0;          // the maximum number of output tokens, without EOS
  int64_t n_waived = 0;         // --min-len does not apply to this number of first tokens
  int64_t horizon = 0;          // Jacobi decoding: the tokens solved in blocks; 0: by the options
  uint64_t random_state = 0;    // for sampling
  std::shared_ptr<const Constraints> constraints;  // of beams; null: none
  std::vector<Phrase> forbidden;  // phrases that the output may not contain
  std::vector<int64_t> draft;   // earlier translations, each with EOS; empty: none
  std::vector<int64_t> types;   // the possible output types, with EOS, ascending; empty: all
  bool return_attention = false;  // whether hypotheses need their attention to the source
  std::shared_ptr<const Outputs> outputs;  // of the types, once the sentence is decoded; null: all
};

// A translation.
struct Hypothesis {
  std::vector<int64_t> tokens;  // ending in EOS
  std::vector<float> scores;    // of each token
  double total = 0;             // their sum
  // [tokens, n]: the attention to the n tokens or frames of the source when each token was chosen;
  // empty if it is not needed.
  std::vector<float> attention;
};

// A sentence that is done.
struct Result {
  int64_t id = 0;
  std::vector<Hypothesis> hypotheses;  // in the order in which they ended
  int64_t steps = 0;                   // the number of decoder invocations for the sentence
  int64_t expansions = 0;              // of beams: the number of rows over all of them
  std::vector<int64_t> blocks;         // without beams: the number of tokens kept in each step
  std::string error;                   // why there are no hypotheses
};

}  // namespace fastdec
