// The Python interface of searches and of the service.

#pragma once

#include <limits>

#include "beam_search.h"
#include "bind_requests.h"
#include "blocks.h"
#include "jacobi.h"
#include "pairs.h"
#include "search.h"
#include "service.h"

namespace fastdec {

// A search, the reader of its requests, and a function that makes similar searches.
struct CheckedSearch {
  CheckedSearch(const MakeSearch &make, const Models &models, const Rules &rules,
                int64_t n_mapped)
      : make(std::make_shared<const MakeSearch>(make)),
        search(make()),
        requests(models, rules, *search, n_mapped) {}

  const std::shared_ptr<const MakeSearch> make;
  const std::unique_ptr<Search> search;
  const RequestReader requests;
};

// Sentences that are done, in arrays.
struct Results {
  explicit Results(const std::vector<Result> &results) {
    int64_t n = 0, n_attention = 0;
    for (const Result &own : results) {
      ids.push_back(own.id), steps.push_back(own.steps), expansions.push_back(own.expansions);
      errors.push_back(own.error), blocks.push_back(own.blocks);
      n_hypotheses.push_back(int64_t(own.hypotheses.size()));
      for (const Hypothesis &hypothesis : own.hypotheses) {
        lengths.push_back(int64_t(hypothesis.tokens.size()));
        totals.push_back(hypothesis.total);
        n += lengths.back(), n_attention += int64_t(hypothesis.attention.size());
        n_attended.push_back(int64_t(hypothesis.attention.size()) / lengths.back());
      }
    }
    tokens = Array<int64_t>(n), scores = Array<float>(n), attention = Array<float>(n_attention);
    int64_t *to = tokens.mutable_data();
    float *scores_to = scores.mutable_data(), *attention_to = attention.mutable_data();
    for (const Result &own : results)
      for (const Hypothesis &hypothesis : own.hypotheses) {
        to = std::copy(hypothesis.tokens.begin(), hypothesis.tokens.end(), to);
        scores_to = std::copy(hypothesis.scores.begin(), hypothesis.scores.end(), scores_to);
        const std::vector<float> &attended = hypothesis.attention;
        attention_to = std::copy(attended.begin(), attended.end(), attention_to);
      }
  }

  std::vector<int64_t> ids, steps, expansions;  // of each sentence
  std::vector<std::string> errors;
  std::vector<std::vector<int64_t>> blocks;
  std::vector<int64_t> n_hypotheses;
  std::vector<int64_t> lengths;  // of each hypothesis
  std::vector<double> totals;
  std::vector<int64_t> n_attended;  // see Hypothesis::attention
  Array<int64_t> tokens;  // of all hypotheses
  Array<float> scores, attention;
};

namespace {

// Sets options by their names.
class OptionReader {
 public:
  explicit OptionReader(const py::kwargs &given) : left(given.attr("copy")()) {}

  template <typename Value>
  void operator()(const char *name, Value &value) {
    if (left.contains(name)) value = read<Value>(left.attr("pop")(name));
  }

  // Raises TypeError for names that are not options.
  void finish() const {
    for (const auto &item : left)
      throw py::type_error("unknown option " + std::string(py::str(item.first)));
  }

 private:
  template <typename Value>
  static Value read(const py::object &given) {
    if constexpr (!std::is_same_v<Value, int64_t>) {
      return given.cast<Value>();
    } else {
      // None is no limit; numbers of any size are possible.
      if (given.is_none()) return std::numeric_limits<int64_t>::max();
      int overflow = 0;
      const int64_t number = PyLong_AsLongLongAndOverflow(given.ptr(), &overflow);
      if (PyErr_Occurred()) throw py::error_already_set();
      if (!overflow) return number;
      return overflow > 0 ? std::numeric_limits<int64_t>::max()
                          : std::numeric_limits<int64_t>::min();
    }
  }

  py::dict left;
};

template <typename Options>
Options options_of(const py::kwargs &given) {
  Options options;
  OptionReader reader(given);
  options.each(reader);
  reader.finish();
  return options;
}

using GivenModels = std::vector<std::shared_ptr<Model>>;

// The models of a search, without a language model that has no weight. Checks that they and the rules
// are consistent.
Models checked_models(const GivenModels &given, const Rules &rules, int64_t tokens_per_step) {
  Models models(given.begin(), given.end());
  const auto ends_with_lm = [&] { return !models.empty() && models.back()->is_language_model(); };
  if (ends_with_lm() && rules.lm_weight == 0) models.pop_back();
  const bool has_lm = ends_with_lm();
  require(has_lm == (rules.lm_weight != 0), "lm_weight: needs a language model, the last model");
  require(int64_t(models.size()) > has_lm, "models: need at least one that translates");
  require(std::none_of(models.begin(), models.end() - has_lm,
                       [](const auto &model) { return model->is_language_model(); }),
          "models: have more than one language model");
  const int64_t n_types = models[0]->output.outputs;
  for (const auto &model : models)
    require(model->output.outputs == n_types &&
                model->decoder.tokens_per_step == tokens_per_step,
            "models: have different vocabularies, or another number of tokens per step");
  require(is_within(rules.eos, n_types) && is_within(rules.pad, n_types) &&
              is_within(rules.unk, n_types),
          "rules: a special type is not in the vocabulary");
  for (int64_t token : rules.never)
    require(is_within(token, n_types), "rules: a type is not in the vocabulary");
  return models;
}

void check(const GuessOptions &guesses, const Models &models) {
  require(!guesses.looks_up() || guesses.ngram_order >= 2, "ngram_order: must be at least 2");
  const bool maps_sources = guesses.guess == "copy" || guesses.guess == "source";
  require(guesses.target_types.empty() != maps_sources,
          "target_types: needed for copy and source only");
  for (const auto &model : models)
    for (int64_t token : guesses.target_types)
      require(is_within(token, model->decoder.n_types),
              "target_types: one is not in the vocabulary");
}

// Checks that there are heads, and that those of all models that have some can propose together.
void check_heads(const Models &given, int64_t n_heads) {
  Models models;
  std::copy_if(given.begin(), given.end(), std::back_inserter(models),
               [](const auto &model) { return model->proposes(); });
  require(!models.empty(), "proposals: no model has heads");
  const Model &first = *models[0];
  for (const auto &model : models) {
    require(model->has_sequential() == first.has_sequential(),
            "proposals: heads must be of one kind");
    require(model->has_sequential() || n_heads == 1 + model->heads.n_heads,
            "proposals: a model has another number of heads");
    require(model->proposals.outputs == first.proposals.outputs,
            "proposals: heads have different vocabularies");
  }
}

void check(const BlockOptions &options, const Models &models) {
  const Proposals &proposals = options.proposals;
  const Acceptance &acceptance = options.acceptance;
  if (proposals.decoding_block_size > 1) check_heads(models, proposals.decoding_block_size);
  require(proposals.lookahead_window >= 1, "lookahead_window: must be at least 1");
  require(!proposals.by_time || !acceptance.asks(), "by_time: needs exact acceptance");
  check(proposals.guesses, models);
  require(acceptance.kind() != Acceptance::DISTANCE ||
              int64_t(acceptance.values.size()) == models[0]->output.outputs,
          "values: must match the vocabulary");
}

void check(const JacobiOptions &options, const Models &models) {
  check(options.guesses, models);
  require(options.jacobi_block_size > 0, "jacobi_block_size: must be at least 1");
}

// Checks the size of a beam, and how it is pruned.
template <typename Options>
void check_pruning(const Options &options) {
  require(options.beam > 0 && options.max_candidates > 0,
          "beam, max_candidates: must be at least 1");
  require(options.prune_threshold >= 0, "prune_threshold: must not be negative");
}

void check(const BeamOptions &options, const Models &) {
  check_pruning(options);
  require(options.finalize == "fairseq" || options.finalize == "paper" || options.is_hf(),
          "finalize: unknown");
  const int64_t n_groups = options.diverse_beam_groups;
  const double strength = options.diverse_beam_strength;
  require(n_groups >= 0 && (!n_groups || options.beam % n_groups == 0),
          "diverse_beam_groups: must divide beam");
  require(strength >= 0 && strength < INFINITY, "diverse_beam_strength: must be a number of at least 0");
  require(!n_groups || (options.finalize == "fairseq" && !options.sampling &&
                        !options.match_source_len && options.prune_threshold == INFINITY),
          "diverse_beam_groups: not with other rules for candidates");
  require(n_groups || !options.cumulative_diversity, "cumulative_diversity: needs groups");
  require(!options.is_hf() || options.prune_threshold == INFINITY, "prune_threshold: not with hf");
}

void check(const PairOptions &options, const Models &models) {
  for (const auto &model : models) {
    require_tokens(&options.right_bos, 1, model->decoder.n_types, "first");
    require_tokens(&options.eos, 1, model->decoder.n_types, "last");
  }
  check_pruning(options);
  const std::string &order = options.token_order;
  require(order == "bidirectional" || order == "l2r" || order == "r2l", "token_order: unknown");
}

int64_t n_mapped(const BlockOptions &options) {
  return int64_t(options.proposals.guesses.target_types.size());
}
int64_t n_mapped(const JacobiOptions &options) {
  return int64_t(options.guesses.target_types.size());
}
template <typename Options>
int64_t n_mapped(const Options &) {
  return 0;
}

template <typename Kind, typename Options>
std::unique_ptr<CheckedSearch> made(const GivenModels &given, const Rules &rules,
                                    const py::kwargs &options_given, int64_t tokens_per_step = 1) {
  const Models models = checked_models(given, rules, tokens_per_step);
  const auto options = options_of<Options>(options_given);
  check(options, models);
  const auto make = [models, rules, options] {
    return std::make_unique<Kind>(models, rules, options);
  };
  return std::make_unique<CheckedSearch>(make, models, rules, n_mapped(options));
}

std::unique_ptr<CheckedSearch> search_of(const std::string &kind, const GivenModels &models,
                                         const Rules &rules, const py::kwargs &options) {
  if (kind == "blocks") return made<BlockSearch, BlockOptions>(models, rules, options);
  if (kind == "jacobi") return made<JacobiSearch, JacobiOptions>(models, rules, options);
  if (kind == "beam") return made<BeamSearch, BeamOptions>(models, rules, options);
  if (kind == "pairs") return made<PairSearch, PairOptions>(models, rules, options, 2);
  throw py::value_error("search: unknown kind " + kind);
}

// Adds sentences to a search. With a service, adds them to its queue instead, and one of its threads
// decodes them with a search of the same models and options. Returns whether the service accepts
// them; see Service::submit.
bool admit(CheckedSearch &own, Array<int64_t> ids, int64_t bos, Array<int64_t> max_lens,
           Array<int64_t> waived, std::optional<Array<int64_t>> sources,
           std::optional<EncoderStates> states, std::optional<Array<int64_t>> n_source,
           std::optional<Array<int64_t>> prefix, std::optional<std::vector<Array<int64_t>>> types,
           std::optional<std::vector<Array<int64_t>>> drafts,
           std::optional<std::vector<std::vector<Phrase>>> constraints, bool ordered,
           std::optional<std::vector<std::vector<Phrase>>> forbidden,
           std::optional<Array<int64_t>> horizons, std::optional<Array<uint64_t>> random_states,
           bool return_attention, Service *service, std::shared_ptr<Mailbox> mailbox,
           int64_t most_waiting) {
  std::vector<Request> requests = own.requests.read({ids, max_lens, waived, bos, sources, states,
                                                     n_source, prefix, types, drafts, constraints,
                                                     ordered, forbidden, horizons, random_states,
                                                     return_attention});
  if (!service) {
    for (Request &request : requests) own.search->admit(std::move(request));
    return true;
  }
  require(mailbox != nullptr, "mailbox: missing");
  const py::gil_scoped_release unlocked;
  bool is_accepted = true;
  for (Request &request : requests)
    is_accepted &= service->submit({std::move(request), own.make, mailbox}, most_waiting);
  return is_accepted;
}

py::dict by_part(const Seconds &own) {
  return py::dict(py::arg("encoder") = own.encoder, py::arg("decoder") = own.decoder,
                  py::arg("heads") = own.heads, py::arg("choice") = own.choice,
                  py::arg("search") = own.search);
}

// Deletes a service without the GIL: it waits for its threads, which can need the GIL to free
// Python objects.
struct WithoutGil {
  void operator()(Service *own) const {
    const py::gil_scoped_release released;
    delete own;
  }
};

using OwnedService = std::unique_ptr<Service, WithoutGil>;

OwnedService service(int64_t workers, int64_t capacity, int64_t threads, double max_wait,
                     bool takes_shortest, double longest_wait) {
  require(workers > 0 && capacity > 0 && threads > 0,
          "service: workers, capacity and threads must be at least 1");
  return OwnedService(new Service(
      ServiceOptions{workers, capacity, threads, max_wait, takes_shortest, longest_wait}));
}

}  // namespace

inline void bind_searches(py::module_ &module) {
  module.attr("ALL_STEPS") = std::numeric_limits<int64_t>::max();
  py::class_<Rules>(module, "Rules")
      .def(py::init([](int64_t eos, int64_t pad, int64_t unk, std::vector<int64_t> never,
                       float unk_penalty, float temperature, float lm_weight, double lenpen,
                       int64_t min_len, int64_t no_repeat_ngram) {
             return Rules{eos,         pad,       unk,    std::move(never), unk_penalty,
                          temperature, lm_weight, lenpen, min_len,          no_repeat_ngram};
           }),
           py::arg("eos"), py::arg("pad"), py::arg("unk"), py::arg("never"),
           py::arg("unk_penalty"), py::arg("temperature"), py::arg("lm_weight"),
           py::arg("lenpen"), py::arg("min_len"), py::arg("no_repeat_ngram"));
  py::class_<Counts>(module, "Counts")
      .def_readonly("encoder_invocations", &Counts::encoder_invocations)
      .def_readonly("decoder_invocations", &Counts::decoder_invocations)
      .def_readonly("row_invocations", &Counts::row_invocations)
      .def_readonly("verified", &Counts::verified)
      .def_readonly("accepted", &Counts::accepted)
      .def_readonly("drafted", &Counts::drafted)
      .def_readonly("drafted_right", &Counts::drafted_right)
      .def_readonly("beam_steps", &Counts::beam_steps)
      .def_readonly("waiting", &Counts::waiting)
      .def_property_readonly("seconds", [](const Counts &own) { return by_part(own.seconds); });
  py::class_<Results>(module, "Results")
      .def_readonly("ids", &Results::ids)
      .def_readonly("steps", &Results::steps)
      .def_readonly("expansions", &Results::expansions)
      .def_readonly("errors", &Results::errors)
      .def_readonly("blocks", &Results::blocks)
      .def_readonly("n_hypotheses", &Results::n_hypotheses)
      .def_readonly("lengths", &Results::lengths)
      .def_readonly("totals", &Results::totals)
      .def_readonly("n_attended", &Results::n_attended)
      .def_readonly("tokens", &Results::tokens)
      .def_readonly("scores", &Results::scores)
      .def_readonly("attention", &Results::attention);
  py::class_<Mailbox, std::shared_ptr<Mailbox>>(module, "Mailbox")
      .def(py::init<>())
      .def("fileno", &Mailbox::fd)
      .def("take", [](Mailbox &own) { return Results(own.take()); });
  py::class_<Service, OwnedService>(module, "Service")
      .def(py::init(&service), py::arg("workers"), py::arg("capacity"), py::arg("threads"),
           py::arg("max_wait"), py::arg("takes_shortest"), py::arg("longest_wait"))
      .def("cancel", &Service::cancel, py::arg("id"), py::call_guard<py::gil_scoped_release>())
      .def("queued", &Service::queued, py::call_guard<py::gil_scoped_release>())
      .def("close", &Service::close, py::call_guard<py::gil_scoped_release>());
  const py::object none = py::none();
  py::class_<CheckedSearch>(module, "Search")
      .def(py::init(&search_of), py::arg("kind"), py::arg("models"), py::arg("rules"))
      .def("admit", &admit, py::arg("ids"), py::arg("bos"), py::arg("max_lens"),
           py::arg("waived"), py::arg("sources") = none, py::arg("states") = none,
           py::arg("n_source") = none, py::arg("prefix") = none, py::arg("types") = none,
           py::arg("drafts") = none, py::arg("constraints") = none, py::arg("ordered") = false,
           py::arg("forbidden") = none, py::arg("horizons") = none,
           py::arg("random_states") = none, py::arg("return_attention") = false,
           py::arg("service") = none, py::arg("mailbox") = none,
           py::arg("most_waiting") = std::numeric_limits<int64_t>::max())
      .def(
          "advance",
          [](CheckedSearch &own, int64_t n_steps, int64_t n_threads) {
            return own.search->advance(n_steps, n_threads);
          },
          py::arg("n_steps"), py::arg("n_threads"), py::call_guard<py::gil_scoped_release>())
      .def("finished", [](CheckedSearch &own) { return Results(own.search->finished()); })
      .def("cancel", [](CheckedSearch &own, int64_t id) { return own.search->cancel(id); })
      .def("set_schedule",
           [](CheckedSearch &own, const py::kwargs &given) {
             const auto schedule = options_of<ScheduleOptions>(given);
             require(schedule.batch_size >= 0 && schedule.max_tokens >= 0 &&
                         schedule.max_beam_rows >= 0,
                     "schedule: must not be negative");
             own.search->set_schedule(schedule);
           })
      .def_property_readonly("verifies_drafts",
                             [](CheckedSearch &own) { return own.search->verifies_drafts(); })
      .def_property_readonly("takes_constraints",
                             [](CheckedSearch &own) { return own.search->takes_constraints(); })
      .def_property_readonly("forbids_phrases",
                             [](CheckedSearch &own) { return own.search->forbids_phrases(); })
      .def_property_readonly("counts", [](CheckedSearch &own) { return own.search->counts(); });
}

}  // namespace fastdec
