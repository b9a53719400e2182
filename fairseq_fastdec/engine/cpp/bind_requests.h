// Reads the sentences that Python gives to a search.

#pragma once

#include <optional>
#include <utility>

#include "bind.h"
#include "rules.h"

namespace fastdec {

// The encoder states of each model, [B, S, dim], and their lengths, [B].
using EncoderStates = std::vector<std::pair<Array<float>, Array<int64_t>>>;

// B sentences. Arrays without a remark are [B], and may be missing.
struct GivenRequests {
  Array<int64_t> ids, max_lens, waived;                 // not missing
  int64_t bos = 0;
  std::optional<Array<int64_t>> sources;                // [B, S]
  std::optional<EncoderStates> states;                  // if, and only if, a model has no encoder
  std::optional<Array<int64_t>> n_source;               // needed if there are no sources
  std::optional<Array<int64_t>> prefix;                 // [B, P]
  std::optional<std::vector<Array<int64_t>>> types;     // arrays of any lengths
  std::optional<std::vector<Array<int64_t>>> drafts;    // arrays of any lengths; empty for none
  std::optional<Array<int64_t>> horizons;
  std::optional<Array<uint64_t>> random_states;
};

// Reads requests, and checks them against the models of a search.
class RequestReader {
 public:
  // n_mapped: the number of source types that guesses map to target types; 0: none
  RequestReader(Models models, const Rules &rules, bool verifies_drafts, int64_t n_mapped)
      : models(std::move(models)),
        verifies_drafts(verifies_drafts),
        n_mapped(n_mapped),
        pad(rules.pad),
        eos(rules.eos) {}

  // Raises ValueError, and IndexError for tokens that are not in the dictionary.
  std::vector<Request> read(const GivenRequests &given) const;

 private:
  void read_sources(const Array<int64_t> &tokens, std::vector<Request> &requests) const;
  void read_states(const EncoderStates &given, std::vector<Request> &requests) const;
  // A draft of output tokens, with EOS.
  std::vector<int64_t> draft_of(const Array<int64_t> &given) const;
  std::vector<int64_t> types_of(const Array<int64_t> &given,
                                const std::vector<int64_t> &forced) const;
  std::vector<int64_t> without_padding(const int64_t *from, int64_t n) const;

  const Models models;
  const bool verifies_drafts;
  const int64_t n_mapped, pad, eos;
};

// Raises IndexError for tokens that are not below n_types.
void require_tokens(const int64_t *tokens, int64_t n, int64_t n_types, const std::string &name);

}  // namespace fastdec
