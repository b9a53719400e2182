// The Python interface of the engine. All input from Python is checked here, and only here.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <limits>
#include <string>

#include "beam_search.h"
#include "blocks.h"
#include "jacobi.h"
#include "pairs.h"
#include "service.h"

namespace py = pybind11;

namespace fastdec {

namespace {

// Contiguous arrays of exactly this type.
template <typename T>
using Array = py::array_t<T, py::array::c_style>;

void require(bool is_right, const std::string &what) {
  if (!is_right) throw py::value_error(what);
}

// Keeps a Python object alive from any thread.
std::shared_ptr<const void> owner_of(py::object object) {
  auto *const held = new py::object(std::move(object));
  return std::shared_ptr<const void>(held, [](py::object *object) {
    py::gil_scoped_acquire locked;
    delete object;
  });
}

// A linear layer with a packed weight, see structures.h.
struct PackedLinear {
  Linear linear = {};
  std::vector<std::shared_ptr<const void>> owners;
};

void require_size(const py::array &array, int64_t n, const std::string &name) {
  require(array.flags() & py::array::c_style, name + ": must be contiguous");
  require(array.size() == n, name + ": has " + std::to_string(array.size()) + " numbers, not " +
                                 std::to_string(n));
}

template <typename T>
const T *numbers(const py::array &array, int64_t n, const std::string &name) {
  require(array.dtype().equal(py::dtype::of<T>()), name + ": has another dtype");
  require_size(array, n, name);
  return static_cast<const T *>(array.data());
}

// The dtype of the weight determines its format; see Linear.
PackedLinear packed_linear(py::array weight, py::array bias, int64_t inputs, int64_t outputs,
                           std::optional<py::array> scales,
                           std::optional<py::array> compensation) {
  require(inputs > 0 && outputs > 0, "a layer without inputs or outputs");
  const int64_t n = n_blocks_of(outputs) * BLOCK;
  PackedLinear packed;
  Linear &linear = packed.linear;
  linear.inputs = inputs, linear.outputs = outputs;
  linear.bias = numbers<float>(bias, n, "bias");
  linear.format = format_of(py::str(weight.dtype()));
  require(linear.format, "weight: unsupported dtype");
  require_size(weight, n * linear.n_groups() * linear.format->group, "weight");
  linear.weight = weight.data();
  if (linear.format->has_scales) {
    require(scales && compensation, "weights of this dtype need scales and compensation");
    linear.scales = numbers<float>(*scales, n, "scales");
    linear.zero_point_compensation = numbers<int32_t>(*compensation, n, "compensation");
    packed.owners = {owner_of(*scales), owner_of(*compensation)};
  }
  packed.owners.push_back(owner_of(weight));
  packed.owners.push_back(owner_of(bias));
  return packed;
}

// Applies a layer to x [n, inputs]; returns y [n, outputs].
Array<float> product(const PackedLinear &own, Array<float> x, int64_t n_threads) {
  require(x.ndim() == 2 && x.shape(1) == own.linear.inputs, "x: must be [n, inputs]");
  Array<float> y({x.shape(0), py::ssize_t(own.linear.outputs)});
  Product task = {};
  task.linear = own.linear, task.n_threads = n_threads;
  task.n = x.shape(0), task.x = x.data(), task.y = y.mutable_data();
  const py::gil_scoped_release unlocked;
  Buffer<float> scratch;
  run(task, scratch);
  return y;
}

struct LayerNorm {
  Norm norm = {};
  int64_t size = 0;
  std::vector<std::shared_ptr<const void>> owners;
};

LayerNorm layer_norm(py::array weight, py::array bias, float epsilon) {
  LayerNorm made;
  made.norm = {numbers<float>(weight, weight.size(), "weight"),
               numbers<float>(bias, weight.size(), "bias"), epsilon};
  made.size = weight.size();
  made.owners = {owner_of(weight), owner_of(bias)};
  return made;
}

// Collects the parts of a model, and the owners of their memory.
class Collector {
 public:
  explicit Collector(std::vector<std::shared_ptr<const void>> &owners) : owners(owners) {}

  Linear linear(const py::dict &parts, const char *name, int64_t inputs, int64_t outputs) {
    require(parts.contains(name), std::string(name) + ": missing");
    const auto &own = parts[name].cast<const PackedLinear &>();
    require(own.linear.inputs == inputs && own.linear.outputs == outputs,
            std::string(name) + ": the layer has other sizes");
    return take(own);
  }

  Linear take(const PackedLinear &own) {
    owners.insert(owners.end(), own.owners.begin(), own.owners.end());
    return own.linear;
  }

  Norm norm(const py::dict &parts, const char *name, int64_t size) {
    require(parts.contains(name), std::string(name) + ": missing");
    return take(parts[name].cast<const LayerNorm &>(), name, size);
  }

  Norm optional_norm(const py::dict &parts, const char *name, int64_t size) {
    return parts.contains(name) && !parts[name].is_none() ? norm(parts, name, size) : Norm();
  }

  Norm take(const LayerNorm &own, const char *name, int64_t size) {
    require(own.size == size, std::string(name) + ": the norm has another size");
    owners.insert(owners.end(), own.owners.begin(), own.owners.end());
    return own.norm;
  }

  const float *floats(const py::array &array, int64_t n, const char *name) {
    owners.push_back(owner_of(array));
    return numbers<float>(array, n, name);
  }

 private:
  std::vector<std::shared_ptr<const void>> &owners;
};

// The layers and embeddings of an encoder or a decoder.
struct Network {
  Model model = {};
  std::vector<std::shared_ptr<const void>> owners;
};

int64_t size_of(const py::dict &linears, const char *name, bool of_outputs) {
  require(linears.contains(name), std::string(name) + ": missing");
  const auto &own = linears[name].cast<const PackedLinear &>();
  return of_outputs ? own.linear.outputs : own.linear.inputs;
}

Epilogue activation_of(int64_t number) {
  const auto activation = static_cast<Epilogue>(number);
  require(is_within(number, int64_t(Epilogue::TANH) + 1) && activation != Epilogue::ADD,
          "activation: unknown number");
  return activation;
}

Network network(const std::vector<std::pair<py::dict, py::dict>> &layers, int64_t n_heads,
                int64_t head_dim, bool pre_norm, int64_t activation, int64_t tokens_per_step,
                py::array embed, float embed_scale, std::optional<LayerNorm> embed_norm,
                std::optional<LayerNorm> final_norm, std::optional<py::array> positions) {
  Network made;
  Collector collect(made.owners);
  Model &model = made.model;
  require(!layers.empty() && n_heads > 0 && head_dim > 0, "network: has no layers or heads");
  require(tokens_per_step >= 0, "tokens_per_step: must not be negative");
  require(embed.ndim() == 2 && embed.shape(1) == n_heads * head_dim, "embed: must be [types, dim]");
  const int64_t dim = embed.shape(1);
  model.n_layers = int64_t(layers.size()), model.dim = dim;
  model.n_heads = n_heads, model.head_dim = head_dim;
  model.hidden = size_of(layers[0].first, "fc1", true);
  model.pre_norm = pre_norm, model.activation = activation_of(activation);
  model.tokens_per_step = tokens_per_step;
  model.embed = collect.floats(embed, embed.size(), "embed");
  model.n_types = embed.shape(0), model.embed_scale = embed_scale;
  if (embed_norm) model.embed_norm = collect.take(*embed_norm, "embed_norm", dim);
  if (final_norm) model.final_norm = collect.take(*final_norm, "final_norm", dim);
  if (positions) {
    require(positions->ndim() == 2 && positions->shape(1) == dim, "positions: must be [n, dim]");
    model.positions = collect.floats(*positions, positions->size(), "positions");
    model.n_positions = positions->shape(0);
  }
  auto made_layers = std::make_shared<std::vector<Layer>>();
  for (const auto &[linears, norms] : layers) {
    Layer layer = {};
    layer.self_qkv = collect.linear(linears, "self_qkv", dim, 3 * dim);
    layer.self_out = collect.linear(linears, "self_out", dim, dim);
    if (tokens_per_step) {
      layer.cross_query = collect.linear(linears, "cross_query", dim, dim);
      layer.cross_out = collect.linear(linears, "cross_out", dim, dim);
    }
    layer.fc1 = collect.linear(linears, "fc1", dim, model.hidden);
    layer.fc2 = collect.linear(linears, "fc2", model.hidden, dim);
    layer.self_norm = collect.norm(norms, "self_norm", dim);
    if (tokens_per_step) layer.cross_norm = collect.norm(norms, "cross_norm", dim);
    layer.final_norm = collect.norm(norms, "final_norm", dim);
    layer.self_out_norm = collect.optional_norm(norms, "self_out_norm", dim);
    layer.fc1_norm = collect.optional_norm(norms, "fc1_norm", model.hidden);
    if (norms.contains("residual_scale"))
      layer.residual_scale =
          collect.floats(norms["residual_scale"].cast<py::array>(), dim, "residual_scale");
    made_layers->push_back(layer);
  }
  model.layers = made_layers->data();
  made.owners.push_back(made_layers);
  return made;
}

// Parallel prediction heads.
struct HeadLayers {
  Heads heads = {};
  std::vector<std::shared_ptr<const void>> owners;
};

HeadLayers head_layers(const PackedLinear &hidden, const std::vector<PackedLinear> &outputs,
                       int64_t n_heads, bool gelu) {
  HeadLayers made;
  Collector collect(made.owners);
  auto layers = std::make_shared<std::vector<Linear>>();
  for (const PackedLinear &output : outputs) layers->push_back(collect.take(output));
  Heads &heads = made.heads;
  heads.hidden = collect.take(hidden);
  heads.outputs = layers->data(), heads.n_outputs = int64_t(layers->size());
  heads.n_heads = n_heads, heads.gelu = gelu;
  const bool is_shared = heads.n_outputs == 1;
  require(n_heads > 0 && (is_shared || heads.n_outputs == n_heads),
          "heads: need one output layer, or one per head");
  for (const Linear &output : *layers)
    require(output.inputs == heads.hidden.outputs / heads.n_outputs &&
                output.outputs == heads.hidden.inputs * (is_shared ? n_heads : 1),
            "heads: an output layer has another size");
  made.owners.push_back(layers);
  return made;
}

// Sequential prediction heads.
struct DraftLayers {
  Draft draft = {};
  std::vector<std::shared_ptr<const void>> owners;
};

DraftLayers draft_layers(const py::dict &linears, const py::dict &norms, int64_t n_heads,
                         int64_t head_dim, int64_t activation, py::array embed, float embed_scale,
                         int64_t layer) {
  DraftLayers made;
  Collector collect(made.owners);
  Draft &draft = made.draft;
  Model &model = draft.step.model;
  const int64_t dim = n_heads * head_dim, hidden = size_of(linears, "fc1", true);
  const int64_t of_token = size_of(linears, "token", false);
  require(n_heads > 0 && head_dim > 0, "drafter: has no heads");
  require(embed.ndim() == 2 && of_token == dim + embed.shape(1),
          "token: has another number of inputs");
  model.dim = dim, model.n_heads = n_heads, model.head_dim = head_dim;
  model.hidden = std::max(of_token, hidden), model.activation = activation_of(activation);
  model.tokens_per_step = 1;
  model.embed = collect.floats(embed, embed.size(), "embed");
  model.n_types = embed.shape(0), model.embed_scale = embed_scale;
  draft.begin = collect.linear(linears, "begin", dim, dim);
  draft.token = collect.linear(linears, "token", of_token, dim);
  draft.query = collect.linear(linears, "query", dim, dim);
  draft.source = collect.linear(linears, "source", dim, dim);
  draft.fc1 = collect.linear(linears, "fc1", dim, hidden);
  draft.fc2 = collect.linear(linears, "fc2", hidden, dim);
  if (linears.contains("narrow")) {
    draft.narrow = collect.linear(linears, "narrow", dim, size_of(linears, "narrow", true));
    require(draft.narrow.outputs <= dim, "narrow: wider than the states");
  }
  draft.token_norm = collect.norm(norms, "token_norm", dim);
  draft.source_norm = collect.norm(norms, "source_norm", dim);
  draft.ffn_norm = collect.norm(norms, "ffn_norm", dim);
  draft.output_norm = collect.norm(norms, "output_norm", dim);
  draft.layer = layer;
  return made;
}

template <typename Part>
void keep(PreparedModel &model, const Part &part) {
  model.owners.insert(model.owners.end(), part.owners.begin(), part.owners.end());
}

std::shared_ptr<PreparedModel> prepared_model(
    const PackedLinear &cross, const Network &decoder, const PackedLinear &output,
    bool rounds_keys, std::optional<Network> encoder, std::optional<HeadLayers> p1,
    std::optional<HeadLayers> heads, std::optional<DraftLayers> drafter,
    std::optional<PackedLinear> proposals) {
  auto model = std::make_shared<PreparedModel>();
  const Model &own = decoder.model;
  require(own.tokens_per_step > 0, "decoder: is the network of an encoder");
  model->decoder = own;
  keep(*model, decoder);
  if (encoder) {
    require(encoder->model.tokens_per_step == 0, "encoder: is the network of a decoder");
    require(encoder->model.dim == cross.linear.inputs,
            "cross: the inputs do not match the encoder");
    model->encoder = encoder->model;
    keep(*model, *encoder);
  }
  require(cross.linear.outputs == own.n_layers * 2 * own.dim,
          "cross: has another number of outputs");
  require(output.linear.inputs == own.dim, "output: has another number of inputs");
  require(output.linear.outputs <= own.n_types, "output: more outputs than embeddings");
  model->cross = cross.linear, model->output = output.linear;
  keep(*model, cross);
  keep(*model, output);
  model->rounds_keys = rounds_keys;
  if (p1) {
    require(p1->heads.n_heads == 1, "p1: has more than one head");
    require(p1->heads.hidden.inputs == own.dim, "p1: has another number of inputs");
    model->p1 = p1->heads;
    keep(*model, *p1);
  }
  if (heads || drafter) {
    require(proposals && !(heads && drafter),
            "heads: need an output layer, and must be of one kind");
    const int64_t n_inputs = heads                              ? own.dim
                             : drafter->draft.narrow.outputs ? drafter->draft.narrow.outputs
                                                             : own.dim;
    require(proposals->linear.inputs == n_inputs, "proposals: have another number of inputs");
    require(proposals->linear.outputs <= own.n_types,
            "proposals: have more outputs than there are types");
    keep(*model, *proposals);
  }
  if (heads) {
    require(heads->heads.hidden.inputs == own.dim, "heads: have another number of inputs");
    model->heads = heads->heads, model->proposals = proposals->linear;
    keep(*model, *heads);
  }
  if (drafter) {
    const Model &sizes = drafter->draft.step.model;
    require(sizes.dim == own.dim && sizes.head_dim == own.head_dim,
            "drafter: has states of another size");
    require(sizes.n_types >= proposals->linear.outputs, "drafter: more proposals than embeddings");
    require(is_within(drafter->draft.layer, own.n_layers), "drafter: no such layer");
    model->drafter = drafter->draft, model->proposals = proposals->linear;
    keep(*model, *drafter);
  }
  return model;
}

// The concatenated tokens and scores of outputs.
struct Outputs {
  std::vector<int64_t> lengths;
  Array<int64_t> tokens;
  Array<float> scores;

  // From translations or hypotheses.
  template <typename Output>
  explicit Outputs(const std::vector<const Output *> &outputs) {
    int64_t n = 0;
    for (const Output *output : outputs) {
      lengths.push_back(int64_t(output->tokens.size()));
      n += lengths.back();
    }
    tokens = Array<int64_t>(n), scores = Array<float>(n);
    int64_t *to = tokens.mutable_data();
    float *scores_to = scores.mutable_data();
    for (const Output *output : outputs) {
      to = std::copy(output->tokens.begin(), output->tokens.end(), to);
      scores_to = std::copy(output->scores.begin(), output->scores.end(), scores_to);
    }
  }
};

// The finished sentences of a search.
struct Finished {
  std::vector<int64_t> ids, invocations, n_blocks, blocks;
  Outputs outputs;
};

Finished finished(Search &search) {
  const std::vector<Translation> translations = search.finished();
  std::vector<const Translation *> outputs;
  for (const Translation &own : translations) outputs.push_back(&own);
  Finished all = {{}, {}, {}, {}, Outputs(outputs)};
  for (const Translation &own : translations) {
    all.ids.push_back(own.id);
    all.invocations.push_back(own.invocations);
    all.n_blocks.push_back(int64_t(own.blocks.size()));
    all.blocks.insert(all.blocks.end(), own.blocks.begin(), own.blocks.end());
  }
  return all;
}

void require_tokens(const int64_t *tokens, int64_t n, int64_t n_types, const std::string &name) {
  for (int64_t at = 0; at < n; ++at)
    if (!is_within(tokens[at], n_types))
      throw py::index_error("a " + name + " token that is not in the dictionary");
}

// The encoder states of each model, [B, S, dim], and their lengths, [B].
using EncoderStates = std::vector<std::pair<Array<float>, Array<int64_t>>>;

// The sources of B sentences: tokens [B, S], encoder states if a model has no encoder, or both.
struct GivenSources {
  std::optional<Array<int64_t>> tokens;
  std::optional<EncoderStates> states;

  int64_t n() const {
    const bool has_states = states && !states->empty();
    require(tokens || has_states, "sources: need tokens or states");
    const py::array &given = tokens ? static_cast<const py::array &>(*tokens) : (*states)[0].first;
    require(given.ndim() >= 2, "sources: must be [B, S]");
    return given.shape(0);
  }
};

// The target types that each sentence may use, [B] arrays of any lengths.
using Types = std::optional<std::vector<Array<int64_t>>>;

// The draft of each sentence, [B] arrays of any lengths; empty for none.
using GivenDraftsOf = std::optional<std::vector<Array<int64_t>>>;

// Reads the requests of a search, and checks them against its models.
class Requests {
 public:
  // n_drafted: the number of source types that drafts map to target types; 0: none
  Requests(Models models, const Rules &rules, int64_t n_drafted)
      : models(std::move(models)), n_drafted(n_drafted), pad(rules.pad), eos(rules.eos) {}

  // Reads requests for B sentences, with the fields that all searches use.
  //   max_len_of: returns the maximum number of output tokens of a sentence, by index
  //   prefix: [B, P]
  template <typename Kind, typename MaxLenOf>
  std::vector<Kind> read(const GivenSources &sources, int64_t bos, MaxLenOf max_len_of,
                         const std::optional<Array<int64_t>> &prefix, const Types &types) const {
    const int64_t n = sources.n();
    require(!prefix || (prefix->ndim() == 2 && prefix->shape(0) == n), "prefix: must be [B, P]");
    require(!types || int64_t(types->size()) == n, "types: must be [B]");
    for (const auto &model : models) {
      const int64_t n_types = model->decoder.n_types;
      if (prefix) require_tokens(prefix->data(), prefix->size(), n_types, "prefix");
      require_tokens(&bos, 1, n_types, "first");
    }
    const int64_t n_prefix = prefix ? prefix->shape(1) : 0;
    std::vector<Kind> requests(n);
    for (int64_t i = 0; i < n; ++i) {
      Kind &request = requests[i];
      request.bos = bos, request.max_len = max_len_of(i);
      require(request.max_len >= 0, "max_len: must not be negative");
      const int64_t n_forced = std::min(n_prefix, request.max_len);
      if (prefix) request.forced = without_padding(prefix->data() + i * n_prefix, n_forced);
      if (types) request.types = checked_types((*types)[i], request.forced);
    }
    if (sources.tokens) read_tokens(*sources.tokens, requests);
    require(sources.tokens || !n_drafted, "drafts: need source tokens");
    const bool has_encoders = std::all_of(models.begin(), models.end(), [](const auto &model) {
      return model->has_encoder();
    });
    require(has_encoders == !sources.states,
            "sources: need states if, and only if, a model has no encoder");
    if (sources.states) read_states(*sources.states, requests);
    return requests;
  }

  // Reads a draft of output tokens, and appends EOS if it is missing.
  std::vector<int64_t> draft_of(const Array<int64_t> &given) const {
    for (const auto &model : models)
      require_tokens(given.data(), given.size(), model->decoder.n_types, "draft");
    std::vector<int64_t> draft = without_padding(given.data(), given.size());
    if (!draft.empty() && draft.back() != eos) draft.push_back(eos);
    return draft;
  }

  // Like read, with ids and limits for each sentence.
  //   ids, max_lens, waived: [B]
  template <typename Kind>
  std::vector<Kind> read_each(const GivenSources &sources, const Array<int64_t> &ids, int64_t bos,
                              const Array<int64_t> &max_lens, const Array<int64_t> &waived,
                              const std::optional<Array<int64_t>> &prefix,
                              const Types &types) const {
    const int64_t n = sources.n();
    require(ids.size() == n && max_lens.size() == n && waived.size() == n,
            "ids, max_lens, waived: must be [B]");
    auto requests = read<Kind>(
        sources, bos, [&](int64_t i) { return max_lens.data()[i]; }, prefix, types);
    for (int64_t i = 0; i < n; ++i)
      requests[i].id = ids.data()[i], requests[i].n_waived = waived.data()[i];
    return requests;
  }

 private:
  template <typename Kind>
  void read_tokens(const Array<int64_t> &tokens, std::vector<Kind> &requests) const {
    require(tokens.ndim() == 2, "sources: must be [B, S]");
    const int64_t width = tokens.shape(1);
    if (n_drafted) require_tokens(tokens.data(), tokens.size(), n_drafted, "source");
    for (const auto &model : models) {
      const Model &encoder = model->encoder;
      if (encoder.n_positions && width > encoder.n_positions)
        throw py::index_error("a source of " + std::to_string(width) + " tokens; the model has " +
                              std::to_string(encoder.n_positions) + " positions");
      if (model->has_encoder())
        require_tokens(tokens.data(), tokens.size(), encoder.n_types, "source");
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].source = without_padding(tokens.data() + int64_t(i) * width, width);
      require(!requests[i].source.empty(), "sources: one has no tokens");
    }
  }

  template <typename Kind>
  void read_states(const EncoderStates &given, std::vector<Kind> &requests) const {
    require(given.size() == models.size(), "states: need those of each model");
    const int64_t n = int64_t(requests.size());
    for (size_t member = 0; member < models.size(); ++member) {
      const auto &[states, lengths] = given[member];
      const int64_t dim = models[member]->cross.inputs;
      require(states.ndim() == 3 && states.shape(0) == n && states.shape(2) == dim,
              "states: must be [B, S, dim]");
      require(lengths.size() == n, "states: lengths must be [B]");
      const int64_t width = states.shape(1);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t length = lengths.data()[i];
        require(length > 0 && length <= width, "states: a length exceeds S");
        const float *const from = states.data() + i * width * dim;
        requests[i].states.emplace_back(from, from + length * dim);
      }
    }
  }

  std::vector<int64_t> checked_types(const Array<int64_t> &given,
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
  const int64_t n_drafted, pad, eos;
};

// A search, the checks of its requests, and a recipe for similar searches.
template <typename Kind>
struct Checked {
  Checked(std::function<std::unique_ptr<Kind>()> make, const Models &models, const Rules &rules,
          int64_t n_drafted = 0)
      : search(make()),
        requests(models, rules, n_drafted),
        recipe(std::make_shared<Recipe>(
            Recipe{[make] { return std::make_unique<BatchOf<Kind>>(make()); }})) {}

  template <typename Given>
  void admit(std::vector<Given> &read) {
    for (Given &request : read) search->admit(std::move(request));
  }

  const std::unique_ptr<Kind> search;
  const Requests requests;
  const std::shared_ptr<const Recipe> recipe;
};

void admit_outputs(Checked<Search> &own, std::optional<Array<int64_t>> tokens, int64_t first_id,
                   int64_t bos, int64_t max_len, std::optional<Array<int64_t>> prefix,
                   std::optional<Array<int64_t>> horizons, Types types,
                   std::optional<EncoderStates> states, GivenDraftsOf drafts) {
  auto read = own.requests.read<Request>(
      {tokens, states}, bos, [&](int64_t) { return max_len; }, prefix, types);
  require(!horizons || horizons->size() == int64_t(read.size()), "horizons: must be [B]");
  require(!drafts || drafts->size() == read.size(), "drafts: must be [B]");
  for (size_t i = 0; i < read.size(); ++i) {
    read[i].id = first_id + int64_t(i);
    read[i].n_waived = prefix ? std::min<int64_t>(prefix->shape(1), max_len) : 0;
    read[i].horizon = horizons ? horizons->data()[i] : max_len + 1;
    if (drafts) read[i].draft = own.requests.draft_of((*drafts)[i]);
  }
  own.admit(read);
}

using GivenModels = std::vector<std::shared_ptr<PreparedModel>>;

// Checks that the models of a search and the rules are consistent.
Models checked_models(const GivenModels &models, const Rules &rules, int64_t tokens_per_step = 1) {
  require(!models.empty(), "models: need at least one");
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
  return Models(models.begin(), models.end());
}

void check_drafts(const DraftOptions &drafts, const Models &models) {
  const bool looks_up = drafts.kind == "ngram" || drafts.kind == "source";
  require(!looks_up || drafts.order >= 2, "drafts: order must be at least 2");
  const bool maps_sources = drafts.kind == "copy" || drafts.kind == "source";
  require(drafts.target_types.empty() != maps_sources,
          "drafts: need target types for copy and source only");
  for (const auto &model : models)
    for (int64_t token : drafts.target_types)
      require(is_within(token, model->decoder.n_types),
              "drafts: a target type is not in the vocabulary");
}

// Checks that all models have heads that can propose together.
void check_heads(const Models &models, int64_t n_heads) {
  const PreparedModel &first = *models[0];
  for (const auto &model : models) {
    require(model->has_heads() || model->has_drafter(), "proposals: a model has no heads");
    require(model->has_drafter() == first.has_drafter(), "proposals: heads must be of one kind");
    require(model->has_drafter() || n_heads == 1 + model->heads.n_heads,
            "proposals: a model has another number of heads");
    require(model->proposals.outputs == first.proposals.outputs,
            "proposals: heads have different vocabularies");
  }
}

template <typename Kind, typename Options>
std::unique_ptr<Checked<Search>> checked_search(const Models &models, const Rules &rules,
                                                const Options &options,
                                                const DraftOptions &drafts) {
  const auto make = [models, options] { return std::make_unique<Kind>(models, options); };
  return std::make_unique<Checked<Search>>(make, models, rules,
                                           int64_t(drafts.target_types.size()));
}

std::unique_ptr<Checked<Search>> block_search(const GivenModels &given, const Rules &rules,
                                              const Acceptance &acceptance,
                                              const Proposals &proposals, int64_t capacity) {
  const Models models = checked_models(given, rules);
  const PreparedModel &first = *models[0];
  if (proposals.n_heads > 1) check_heads(models, proposals.n_heads);
  require(proposals.window >= 1, "proposals: window must be at least 1");
  require(!proposals.by_time || !acceptance.asks(), "proposals: by_time needs exact acceptance");
  check_drafts(proposals.drafts, models);
  require(acceptance.kind != Acceptance::DISTANCE ||
              int64_t(acceptance.values.size()) == first.output.outputs,
          "acceptance: values must match the vocabulary");
  require(capacity > 0, "capacity: must be at least 1");
  const BlockOptions options = {rules, acceptance, proposals, capacity};
  return checked_search<BlockSearch>(models, rules, options, proposals.drafts);
}

std::unique_ptr<Checked<Search>> jacobi_search(const GivenModels &given, const Rules &rules,
                                               const DraftOptions &drafts, int64_t block_size,
                                               bool ends_inside_blocks, bool waits_behind_eos,
                                               int64_t capacity) {
  const Models models = checked_models(given, rules);
  check_drafts(drafts, models);
  require(block_size > 0 && capacity > 0, "block_size, capacity: must be at least 1");
  const JacobiOptions options = {rules,            drafts,  block_size, ends_inside_blocks,
                                 waits_behind_eos, capacity};
  return checked_search<JacobiSearch>(models, rules, options, drafts);
}

// Finished sentences, with any number of hypotheses.
struct Collected {
  std::vector<int64_t> ids, n_hypotheses;
  std::vector<int64_t> steps, expansions;  // of BeamResult
  std::vector<std::string> errors;         // of Ended; empty for sentences with hypotheses
  Array<float> totals;                     // of each hypothesis
  Outputs outputs;
};

template <typename Sentence>
Collected collected(const std::vector<Sentence> &sentences) {
  std::vector<const Hypothesis *> hypotheses;
  for (const Sentence &sentence : sentences)
    for (const Hypothesis &own : sentence.hypotheses) hypotheses.push_back(&own);
  Collected all = {{}, {}, {}, {}, {}, Array<float>(hypotheses.size()), Outputs(hypotheses)};
  for (const Sentence &sentence : sentences) {
    all.ids.push_back(sentence.id);
    all.n_hypotheses.push_back(int64_t(sentence.hypotheses.size()));
    if constexpr (std::is_same_v<Sentence, Ended>)
      all.errors.push_back(sentence.error);
    else
      all.steps.push_back(sentence.steps), all.expansions.push_back(sentence.expansions);
  }
  float *total = all.totals.mutable_data();
  for (const Hypothesis *own : hypotheses) *total++ = own->total;
  return all;
}

template <typename Beams>
Collected finished(Beams &search) {
  return collected(search.finished());
}

std::unique_ptr<Checked<BeamSearch>> beam_search(const GivenModels &given, const Rules &rules,
                                                 const BeamOptions &options) {
  const Models models = checked_models(given, rules);
  require(options.width > 0 && options.n_per_entry > 0,
          "options: width and n_per_entry must be at least 1");
  require(options.threshold >= 0, "options: threshold must not be negative");
  const auto make = [models, rules, options] {
    return std::make_unique<BeamSearch>(models, rules, options);
  };
  return std::make_unique<Checked<BeamSearch>>(make, models, rules);
}

void set_schedule(Checked<BeamSearch> &own, const ScheduleOptions &schedule) {
  require(schedule.sentences >= 0 && schedule.source_tokens >= 0, "schedule: must not be negative");
  require(schedule.rows == 0 || schedule.rows >= own.search->width(),
          "schedule: rows must be at least the width of a beam");
  own.search->set_schedule(schedule);
}

// n_source: [B], the lengths of sources without tokens, for schedules
void admit_beams(Checked<BeamSearch> &own, std::optional<Array<int64_t>> tokens,
                 Array<int64_t> ids, int64_t bos, Array<int64_t> max_lens, Array<int64_t> waived,
                 std::optional<Array<int64_t>> prefix,
                 std::optional<Array<uint64_t>> random_states, Types types,
                 std::optional<EncoderStates> states, std::optional<Array<int64_t>> n_source) {
  auto read = own.requests.read_each<BeamRequest>({tokens, states}, ids, bos, max_lens, waived,
                                                  prefix, types);
  const size_t n = read.size();
  require(tokens || (n_source && size_t(n_source->size()) == n), "n_source: must be [B]");
  require(!random_states || size_t(random_states->size()) == n, "random_states: must be [B]");
  for (size_t i = 0; i < n; ++i) {
    if (random_states) read[i].random_state = random_states->data()[i];
    read[i].n_source = tokens ? int64_t(read[i].source.size()) : n_source->data()[i];
  }
  own.admit(read);
}

std::unique_ptr<Checked<PairSearch>> pair_search(const GivenModels &given, const Rules &rules,
                                                 const PairOptions &options) {
  const Models models = checked_models(given, rules, 2);
  for (const auto &model : models)
    require_tokens(&options.right_bos, 1, model->decoder.n_types, "first");
  require(options.width > 0 && options.capacity > 0,
          "options: width and capacity must be at least 1");
  const auto make = [models, rules, options] {
    return std::make_unique<PairSearch>(models, rules, options);
  };
  return std::make_unique<Checked<PairSearch>>(make, models, rules);
}

// prefix: the tokens of the first slots
void admit_pairs(Checked<PairSearch> &own, std::optional<Array<int64_t>> tokens,
                 Array<int64_t> ids, int64_t bos, Array<int64_t> max_lens, Array<int64_t> waived,
                 std::optional<Array<int64_t>> prefix, Types types,
                 std::optional<EncoderStates> states) {
  auto read = own.requests.read_each<Request>({tokens, states}, ids, bos, max_lens, waived, prefix,
                                              types);
  own.admit(read);
}

void prepare(Request &request) { request.horizon = request.max_len + 1; }
void prepare(BeamRequest &request) { request.n_source = int64_t(request.source.size()); }

// source: the tokens of one sentence [1, S]; prefix: [1, P]; draft: [D]
template <typename Kind, typename Given>
Given read_one(const Checked<Kind> &own, int64_t id, Array<int64_t> source, int64_t bos,
               int64_t max_len, std::optional<Array<int64_t>> prefix,
               const std::optional<Array<int64_t>> &draft) {
  require(source.ndim() == 2 && source.shape(0) == 1, "source: must be [1, S]");
  auto read = own.requests.template read<Given>(
      {source, {}}, bos, [&](int64_t) { return max_len; }, prefix, {});
  Given request = std::move(read[0]);
  request.id = id, request.n_waived = prefix ? std::min<int64_t>(prefix->size(), max_len) : 0;
  prepare(request);
  if constexpr (std::is_same_v<Given, Request>) {
    if (draft) request.draft = own.requests.draft_of(*draft);
  } else {
    require(!draft, "draft: not possible with beams");
  }
  return request;
}

// Decodes one sentence with an idle search.
template <typename Kind, typename Given>
Collected decode(Checked<Kind> &own, Array<int64_t> source, int64_t bos, int64_t max_len,
                 std::optional<Array<int64_t>> prefix, std::optional<Array<int64_t>> draft,
                 int64_t n_threads) {
  Given request = read_one<Kind, Given>(own, 0, source, bos, max_len, prefix, draft);
  std::vector<Ended> ended;
  {
    const py::gil_scoped_release unlocked;
    own.search->admit(std::move(request));
    own.search->advance(std::numeric_limits<int64_t>::max(), n_threads);
    for (auto &result : own.search->finished()) ended.push_back(ended_of(std::move(result)));
  }
  return collected(ended);
}

template <typename Kind, typename Given>
bool submit(Service &service, const Checked<Kind> &own, int64_t id, Array<int64_t> source,
            int64_t bos, int64_t max_len, std::optional<Array<int64_t>> prefix,
            std::optional<Array<int64_t>> draft, std::shared_ptr<Mailbox> mailbox,
            int64_t most_waiting) {
  const Given request = read_one<Kind, Given>(own, id, source, bos, max_len, prefix, draft);
  Arrival arrival;
  arrival.id = id, arrival.n_tokens = source.size(), arrival.recipe = own.recipe;
  arrival.mailbox = std::move(mailbox);
  arrival.join = [request](Batch &batch) {
    static_cast<BatchOf<Kind> &>(batch).search->admit(request);
  };
  const py::gil_scoped_release unlocked;
  return service.submit(std::move(arrival), most_waiting);
}

// Deletes a service without the GIL: it waits for its threads, which can need the GIL to free
// Python objects.
struct WithoutGil {
  void operator()(Service *own) const {
    const py::gil_scoped_release released;
    delete own;
  }
};

using ServiceClass = py::class_<Service, std::unique_ptr<Service, WithoutGil>>;

std::unique_ptr<Service, WithoutGil> service(int64_t workers, int64_t capacity, int64_t threads,
                                             double max_wait, bool takes_shortest,
                                             double longest_wait) {
  require(workers > 0 && capacity > 0 && threads > 0,
          "service: workers, capacity and threads must be at least 1");
  return std::unique_ptr<Service, WithoutGil>(new Service(
      ServiceOptions{workers, capacity, threads, max_wait, takes_shortest, longest_wait}));
}

// The methods for single sentences.
template <typename Kind, typename Given>
void bind_one(py::class_<Checked<Kind>> &search, ServiceClass &service) {
  search.def("decode", &decode<Kind, Given>, py::arg("source"), py::arg("bos"),
             py::arg("max_len"), py::arg("prefix"), py::arg("draft"), py::arg("n_threads"));
  service.def("submit", &submit<Kind, Given>, py::arg("recipe"), py::arg("id"),
              py::arg("source"), py::arg("bos"), py::arg("max_len"), py::arg("prefix"),
              py::arg("draft"), py::arg("mailbox").none(false), py::arg("most_waiting"));
}

py::dict by_part(const Seconds &own) {
  return py::dict(py::arg("encoder") = own.encoder, py::arg("decoder") = own.decoder,
                  py::arg("heads") = own.heads, py::arg("choice") = own.choice,
                  py::arg("search") = own.search);
}

// The methods of all searches, except admit.
template <typename Kind>
void bind_search(py::class_<Checked<Kind>> &python) {
  python
      .def(
          "advance",
          [](Checked<Kind> &own, int64_t n_steps, int64_t n_threads) {
            return own.search->advance(n_steps, n_threads);
          },
          py::arg("n_steps"), py::arg("n_threads"), py::call_guard<py::gil_scoped_release>())
      .def("finished", [](Checked<Kind> &own) { return finished(*own.search); })
      .def("cancel", [](Checked<Kind> &own, int64_t id) { return own.search->cancel(id); })
      .def_property_readonly("counts", [](Checked<Kind> &own) { return own.search->counts(); });
}

}  // namespace

PYBIND11_MODULE(_engine, module) {
  module.doc() = "The engine: prepared models, and searches over them. See engine/cpp.";
  module.attr("ALL_STEPS") = std::numeric_limits<int64_t>::max();
  module.attr("BLOCK") = BLOCK, module.attr("PAIR") = PAIR, module.attr("GROUP") = GROUP;
  module.def("n_multiply_adds", &n_multiply_adds);
  module.def("set_width", &set_width, py::arg("widest"));
  module.def("measure_costs", &measure_costs, py::arg("n_threads"));

  py::class_<PackedLinear>(module, "Linear")
      .def(py::init(&packed_linear), py::arg("weight"), py::arg("bias"), py::arg("inputs"),
           py::arg("outputs"), py::arg("scales") = py::none(),
           py::arg("compensation") = py::none())
      .def("__call__", &product, py::arg("x"), py::arg("n_threads") = 1);
  py::class_<LayerNorm>(module, "Norm")
      .def(py::init(&layer_norm), py::arg("weight"), py::arg("bias"), py::arg("epsilon"));
  py::class_<Network>(module, "Network")
      .def(py::init(&network), py::arg("layers"), py::arg("n_heads"), py::arg("head_dim"),
           py::arg("pre_norm"), py::arg("activation"), py::arg("tokens_per_step"),
           py::arg("embed"), py::arg("embed_scale"), py::arg("embed_norm"), py::arg("final_norm"),
           py::arg("positions"));
  py::class_<HeadLayers>(module, "Heads")
      .def(py::init(&head_layers), py::arg("hidden"), py::arg("outputs"), py::arg("n_heads"),
           py::arg("gelu"));
  py::class_<DraftLayers>(module, "Drafter")
      .def(py::init(&draft_layers), py::arg("linears"), py::arg("norms"), py::arg("n_heads"),
           py::arg("head_dim"), py::arg("activation"), py::arg("embed"), py::arg("embed_scale"),
           py::arg("layer"));
  py::class_<PreparedModel, std::shared_ptr<PreparedModel>>(module, "Model")
      .def(py::init(&prepared_model), py::arg("cross"), py::arg("decoder"), py::arg("output"),
           py::arg("rounds_keys"), py::arg("encoder") = py::none(), py::arg("p1") = py::none(),
           py::arg("heads") = py::none(), py::arg("drafter") = py::none(),
           py::arg("proposals") = py::none());

  py::class_<Rules>(module, "Rules")
      .def(py::init([](int64_t eos, int64_t pad, int64_t unk, std::vector<int64_t> never,
                       float unk_penalty, float temperature, int64_t min_len,
                       int64_t no_repeat_ngram) {
             return Rules{eos,         pad,         unk,     std::move(never),
                          unk_penalty, temperature, min_len, no_repeat_ngram};
           }),
           py::arg("eos"), py::arg("pad"), py::arg("unk"), py::arg("never"),
           py::arg("unk_penalty"), py::arg("temperature"), py::arg("min_len"),
           py::arg("no_repeat_ngram"));
  py::class_<Acceptance>(module, "Acceptance")
      .def(py::init([](const std::string &kind, int64_t n_best, double distance,
                       std::vector<double> values, int64_t min_block) {
             return Acceptance{Acceptance::kind_of(kind), n_best, distance, std::move(values),
                               min_block};
           }),
           py::arg("kind") = "exact", py::arg("n_best") = 1, py::arg("distance") = 0.0,
           py::arg("values") = std::vector<double>(), py::arg("min_block") = 1);
  py::class_<DraftOptions>(module, "Drafts")
      .def(py::init([](std::string kind, int64_t order, bool across_sentences,
                       bool replaces_answers, std::vector<int64_t> target_types) {
             return DraftOptions{std::move(kind), order, across_sentences, replaces_answers,
                                 std::move(target_types)};
           }),
           py::arg("kind") = "pad", py::arg("order") = 0, py::arg("across_sentences") = false,
           py::arg("replaces_answers") = false,
           py::arg("target_types") = std::vector<int64_t>());
  py::class_<Proposals>(module, "Proposals")
      .def(py::init([](int64_t n_heads, float confidence, bool by_time, int64_t window,
                       const DraftOptions &drafts) {
             return Proposals{n_heads, confidence, by_time, window, drafts};
           }),
           py::arg("n_heads") = 1, py::arg("confidence") = 0.0f, py::arg("by_time") = false,
           py::arg("window") = 1, py::arg("drafts") = DraftOptions());
  py::class_<Counts>(module, "Counts")
      .def_readonly("encoder_invocations", &Counts::encoder_invocations)
      .def_readonly("decoder_invocations", &Counts::decoder_invocations)
      .def_readonly("row_invocations", &Counts::row_invocations)
      .def_property_readonly("seconds", [](const Counts &own) { return by_part(own.seconds); });
  py::class_<BlockCounts, Counts>(module, "BlockCounts")
      .def_readonly("verified", &BlockCounts::verified)
      .def_readonly("accepted", &BlockCounts::accepted)
      .def_readonly("drafted", &BlockCounts::drafted)
      .def_readonly("drafted_right", &BlockCounts::drafted_right);
  py::class_<Outputs>(module, "Outputs")
      .def_readonly("lengths", &Outputs::lengths)
      .def_readonly("tokens", &Outputs::tokens)
      .def_readonly("scores", &Outputs::scores);
  py::class_<Finished>(module, "Finished")
      .def_readonly("ids", &Finished::ids)
      .def_readonly("invocations", &Finished::invocations)
      .def_readonly("n_blocks", &Finished::n_blocks)
      .def_readonly("blocks", &Finished::blocks)
      .def_readonly("outputs", &Finished::outputs);
  py::class_<Checked<Search>> search(module, "Search");
  search.def("admit", &admit_outputs, py::arg("sources"), py::arg("first_id"),
             py::arg("bos"), py::arg("max_len"), py::arg("prefix") = py::none(),
             py::arg("horizons") = py::none(), py::arg("types") = py::none(),
             py::arg("states") = py::none(), py::arg("drafts") = py::none());
  bind_search(search);
  module.def("block_search", &block_search, py::arg("models"), py::arg("rules"),
             py::arg("acceptance"), py::arg("proposals"), py::arg("capacity"));
  module.def("jacobi_search", &jacobi_search, py::arg("models"), py::arg("rules"),
             py::arg("drafts"), py::arg("block_size"), py::arg("ends_inside_blocks"),
             py::arg("waits_behind_eos"), py::arg("capacity"));

  py::class_<Sampling>(module, "Sampling")
      .def(py::init([](int64_t topk, double topp) { return Sampling{topk, topp}; }),
           py::arg("topk"), py::arg("topp"));
  py::class_<BeamOptions>(module, "BeamOptions")
      .def(py::init([](int64_t width, float threshold, int64_t n_per_entry, bool lets_wait,
                       std::optional<Sampling> sampling) {
             return BeamOptions{width, threshold, n_per_entry, sampling, lets_wait};
           }),
           py::arg("width"), py::arg("threshold"), py::arg("n_per_entry"), py::arg("lets_wait"),
           py::arg("sampling") = py::none());
  py::class_<ScheduleOptions>(module, "Schedule")
      .def(py::init([](int64_t sentences, int64_t source_tokens, int64_t rows,
                       double refill_threshold, bool expands_shortest) {
             return ScheduleOptions{sentences, source_tokens, rows, refill_threshold,
                                    expands_shortest};
           }),
           py::arg("sentences") = 0, py::arg("source_tokens") = 0, py::arg("rows") = 0,
           py::arg("refill_threshold") = 0.0, py::arg("expands_shortest") = false);
  py::class_<BeamCounts, Counts>(module, "BeamCounts")
      .def_readonly("beam_steps", &BeamCounts::beam_steps)
      .def_readonly("waiting", &BeamCounts::waiting);
  py::class_<Checked<BeamSearch>> beams(module, "BeamSearch");
  beams
      .def(py::init(&beam_search), py::arg("models"), py::arg("rules"), py::arg("options"))
      .def("set_schedule", &set_schedule, py::arg("schedule"))
      .def("admit", &admit_beams, py::arg("sources"), py::arg("ids"), py::arg("bos"),
           py::arg("max_lens"), py::arg("waived"), py::arg("prefix") = py::none(),
           py::arg("random_states") = py::none(), py::arg("types") = py::none(),
           py::arg("states") = py::none(), py::arg("n_source") = py::none());
  bind_search(beams);

  py::class_<PairOptions>(module, "PairOptions")
      .def(py::init([](int64_t width, int64_t right_bos, int64_t capacity) {
             return PairOptions{width, right_bos, capacity};
           }),
           py::arg("width"), py::arg("right_bos"), py::arg("capacity"));
  py::class_<Checked<PairSearch>> pairs(module, "PairSearch");
  pairs.def(py::init(&pair_search), py::arg("models"), py::arg("rules"), py::arg("options"))
      .def("admit", &admit_pairs, py::arg("sources"), py::arg("ids"), py::arg("bos"),
           py::arg("max_lens"), py::arg("waived"), py::arg("prefix") = py::none(),
           py::arg("types") = py::none(), py::arg("states") = py::none());
  bind_search(pairs);

  py::class_<Collected>(module, "Collected")
      .def_readonly("ids", &Collected::ids)
      .def_readonly("n_hypotheses", &Collected::n_hypotheses)
      .def_readonly("steps", &Collected::steps)
      .def_readonly("expansions", &Collected::expansions)
      .def_readonly("errors", &Collected::errors)
      .def_readonly("totals", &Collected::totals)
      .def_readonly("outputs", &Collected::outputs);
  py::class_<Mailbox, std::shared_ptr<Mailbox>>(module, "Mailbox")
      .def(py::init<>())
      .def("fileno", &Mailbox::fd)
      .def("take", [](Mailbox &own) { return collected(own.take()); });
  ServiceClass serving(module, "Service");
  serving
      .def(py::init(&service), py::arg("workers"), py::arg("capacity"), py::arg("threads"),
           py::arg("max_wait"), py::arg("takes_shortest"), py::arg("longest_wait"))
      .def("cancel", &Service::cancel, py::arg("id"), py::call_guard<py::gil_scoped_release>())
      .def("queued", &Service::queued, py::call_guard<py::gil_scoped_release>())
      .def("close", &Service::close, py::call_guard<py::gil_scoped_release>());
  bind_one<Search, Request>(search, serving);
  bind_one<BeamSearch, BeamRequest>(beams, serving);
}

}  // namespace fastdec
