// Reads the sentences that Python gives to a search.

#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "bind.h"
#include "search.h"

namespace fastdec {

// The encoder states of each model, [B, S, dim], and their lengths, [B].
using EncoderStates = std::vector<std::pair<Array<float>, Array<int64_t>>>;

// Raises IndexError for tokens that are not below n_types.
inline void require_tokens(const int64_t *tokens, int64_t n, int64_t n_types,
                           const std::string &name) {
  for (int64_t at = 0; at < n; ++at)
    if (!is_within(tokens[at], n_types))
      throw py::index_error("a " + name + " token that is not in the dictionary");
}

namespace {

template <typename Given>
void require_size(const std::optional<Given> &given, int64_t n, const char *name) {
  require(!given || int64_t(given->size()) == n, std::string(name) + ": must be [B]");
}

}  // namespace

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
  std::optional<std::vector<std::vector<Phrase>>> constraints;
  bool ordered = false;                                 // whether the order of constraints matters
  std::optional<std::vector<std::vector<Phrase>>> forbidden;
  std::optional<Array<int64_t>> horizons;
  std::optional<Array<uint64_t>> random_states;
  bool return_attention = false;  // of all
};

// Reads requests, and checks them against the models of a search.
class RequestReader {
 public:
  // n_mapped: the number of source types that guesses map to target types; 0: none
  RequestReader(Models models, const Rules &rules, const Search &search, int64_t n_mapped)
      : models(std::move(models)),
        verifies_drafts(search.verifies_drafts()),
        takes_constraints(search.takes_constraints()),
        forbids_phrases(search.forbids_phrases()),
        n_mapped(n_mapped),
        pad(rules.pad),
        eos(rules.eos) {}

  // Raises ValueError, and IndexError for tokens that are not in the dictionary.
  std::vector<Request> read(const GivenRequests &given) const {
    const int64_t n = given.ids.size();
    require(given.max_lens.size() == n && given.waived.size() == n,
            "ids, max_lens, waived: must be [B]");
    require(given.sources || given.states, "sources: need tokens or states");
    require(given.sources || !n_mapped, "guesses: need source tokens");
    require(given.sources || given.n_source, "n_source: needed without sources");
    require(!given.drafts || verifies_drafts, "drafts: this search does not verify them");
    require(!given.constraints || takes_constraints, "constraints: this search does not take them");
    require(!given.forbidden || forbids_phrases, "forbidden: this search does not take them");
    const std::optional<Array<int64_t>> &prefix = given.prefix;
    require(!prefix || (prefix->ndim() == 2 && prefix->shape(0) == n), "prefix: must be [B, P]");
    require_size(given.n_source, n, "n_source");
    require_size(given.types, n, "types");
    require_size(given.drafts, n, "drafts");
    require_size(given.constraints, n, "constraints");
    require_size(given.forbidden, n, "forbidden");
    require_size(given.horizons, n, "horizons");
    require_size(given.random_states, n, "random_states");
    require(!given.return_attention || std::all_of(models.begin(), models.end(),
                                                   [](const auto &model) { return model->aligns(); }),
            "return_attention: a model does not align");
    const bool has_encoders = std::all_of(models.begin(), models.end(), [](const auto &model) {
      return model->has_encoder() || model->is_language_model();
    });
    require(has_encoders == !given.states,
            "sources: need states if, and only if, a model has no encoder");
    for (const auto &model : models) {
      const int64_t n_types = model->decoder.n_types;
      if (prefix) require_tokens(prefix->data(), prefix->size(), n_types, "prefix");
      require_tokens(&given.bos, 1, n_types, "first");
    }
    const int64_t n_prefix = prefix ? prefix->shape(1) : 0;
    std::vector<Request> requests(n);
    if (given.sources) read_sources(*given.sources, requests);
    if (given.states) read_states(*given.states, given.return_attention, requests);
    for (int64_t i = 0; i < n; ++i) {
      Request &request = requests[i];
      request.id = given.ids.data()[i], request.bos = given.bos;
      request.max_len = given.max_lens.data()[i], request.n_waived = given.waived.data()[i];
      require(request.max_len >= 0, "max_lens: must not be negative");
      const int64_t n_forced = std::min(n_prefix, request.max_len);
      if (prefix) request.forced = without_padding(prefix->data() + i * n_prefix, n_forced);
      request.n_source =
          given.n_source ? given.n_source->data()[i] : int64_t(request.source.size());
      if (given.types) request.types = types_of((*given.types)[i], request.forced);
      if (given.drafts) request.draft = draft_of((*given.drafts)[i]);
      if (given.constraints) read_constraints((*given.constraints)[i], given.ordered, request);
      if (given.forbidden) request.forbidden = checked((*given.forbidden)[i], "forbidden");
      if (given.horizons) request.horizon = given.horizons->data()[i];
      if (given.random_states) request.random_state = given.random_states->data()[i];
      request.return_attention = given.return_attention;
    }
    return requests;
  }

 private:
  void read_sources(const Array<int64_t> &tokens, std::vector<Request> &requests) const {
    const int64_t n = int64_t(requests.size());
    require(tokens.ndim() == 2 && tokens.shape(0) == n, "sources: must be [B, S]");
    const int64_t width = tokens.shape(1);
    if (n_mapped) require_tokens(tokens.data(), tokens.size(), n_mapped, "source");
    for (const auto &model : models) {
      const Network &encoder = model->encoder;
      if (encoder.n_positions && width > encoder.n_positions)
        throw py::index_error("a source of " + std::to_string(width) + " tokens; the model has " +
                              std::to_string(encoder.n_positions) + " positions");
      if (model->has_encoder())
        require_tokens(tokens.data(), tokens.size(), encoder.n_types, "source");
    }
    for (int64_t i = 0; i < n; ++i) {
      requests[i].source = without_padding(tokens.data() + i * width, width);
      require(!requests[i].source.empty(), "sources: one has no tokens");
    }
  }

  void read_states(const EncoderStates &given, bool return_attention,
                   std::vector<Request> &requests) const {
    const int64_t n_lms = models.back()->is_language_model();
    require(int64_t(given.size()) == int64_t(models.size()) - n_lms,
            "states: need those of each model");
    const int64_t n = int64_t(requests.size());
    for (size_t member = 0; member < given.size(); ++member) {
      const auto &[states, lengths] = given[member];
      const int64_t dim = models[member]->cross.inputs;
      require(states.ndim() == 3 && states.shape(0) == n && states.shape(2) == dim,
              "states: must be [B, S, dim]");
      require(lengths.size() == n, "states: lengths must be [B]");
      const int64_t width = states.shape(1);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t length = lengths.data()[i];
        require(length > 0 && length <= width, "states: a length exceeds S");
        require(length == given[0].second.data()[i] || !return_attention,
                "return_attention: the states of models have different lengths");
        const float *const from = states.data() + i * width * dim;
        requests[i].states.emplace_back(from, from + length * dim);
      }
    }
  }

  // A draft of output tokens, with EOS.
  std::vector<int64_t> draft_of(const Array<int64_t> &given) const {
    for (const auto &model : models)
      require_tokens(given.data(), given.size(), model->decoder.n_types, "draft");
    std::vector<int64_t> draft = without_padding(given.data(), given.size());
    if (!draft.empty() && draft.back() != eos) draft.push_back(eos);
    return draft;
  }

  std::vector<Phrase> checked(const std::vector<Phrase> &phrases, const char *name) const {
    for (const Phrase &phrase : phrases) {
      require(!phrase.empty(), std::string(name) + ": a phrase has no tokens");
      require_tokens(phrase.data(), int64_t(phrase.size()), models[0]->output.outputs, name);
    }
    return phrases;
  }

  void read_constraints(const std::vector<Phrase> &phrases, bool ordered, Request &request) const {
    if (phrases.empty()) return;
    request.constraints = std::make_shared<Constraints>(checked(phrases, "constraints"), ordered);
    require(request.constraints->n_tokens() + int64_t(request.forced.size()) <= request.max_len,
            "constraints: have more tokens than the output can have");
    for (const Phrase &phrase : phrases) {
      for (int64_t token : phrase)
        require(token != eos && token != pad, "constraints: have EOS or padding");
      require(request.types.empty() ||
                  std::all_of(phrase.begin(), phrase.end(),
                              [&](int64_t token) {
                                return std::binary_search(request.types.begin(),
                                                          request.types.end(), token);
                              }),
              "types: must include the tokens of the constraints");
    }
  }

  std::vector<int64_t> types_of(const Array<int64_t> &given,
                                const std::vector<int64_t> &forced) const {
    const std::vector<int64_t> types(given.data(), given.data() + given.size());
    const int64_t n_types = models[0]->output.outputs;
    const auto has = [&](int64_t type) {
      return std::binary_search(types.begin(), types.end(), type);
    };
    require(std::adjacent_find(types.begin(), types.end(), std::greater_equal<int64_t>()) ==
                types.end(),
            "types: must be ascending");
    require(has(eos) && std::all_of(forced.begin(), forced.end(), has),
            "types: must include the end of sentence and the tokens of the prefix");
    if (types.front() < 0 || types.back() >= n_types)
      throw py::index_error("target types " + std::to_string(types.front()) + " to " +
                            std::to_string(types.back()) + "; the model has " +
                            std::to_string(n_types) + " types");
    return types;
  }

  std::vector<int64_t> without_padding(const int64_t *from, int64_t n) const {
    std::vector<int64_t> tokens;
    std::copy_if(from, from + n, std::back_inserter(tokens),
                 [&](int64_t token) { return token != pad; });
    return tokens;
  }

  const Models models;
  const bool verifies_drafts, takes_constraints, forbids_phrases;
  const int64_t n_mapped, pad, eos;
};

}  // namespace fastdec
