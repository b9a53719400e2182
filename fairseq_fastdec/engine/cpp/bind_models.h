// The Python interface of models and their parts.

#pragma once

#include "bind.h"
#include "decoder.h"

namespace fastdec {

namespace {

// Keeps a Python object alive from any thread.
std::shared_ptr<const void> owner_of(py::object object) {
  auto *const held = new py::object(std::move(object));
  return std::shared_ptr<const void>(held, [](py::object *object) {
    py::gil_scoped_acquire locked;
    delete object;
  });
}

// A linear layer with a packed weight, see structures.h.
using PackedLinear = Owned<Linear>;

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
  Linear &linear = packed.part;
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
  require(x.ndim() == 2 && x.shape(1) == own.part.inputs, "x: must be [n, inputs]");
  Array<float> y({x.shape(0), py::ssize_t(own.part.outputs)});
  Product task = {};
  task.linear = own.part, task.n_threads = n_threads;
  task.n = x.shape(0), task.x = x.data(), task.y = y.mutable_data();
  const py::gil_scoped_release unlocked;
  Buffer<float> scratch;
  run(task, scratch);
  return y;
}

struct SizedNorm {
  Norm norm = {};
  int64_t size = 0;
};
using LayerNorm = Owned<SizedNorm>;

LayerNorm layer_norm(py::array weight, py::array bias, float epsilon) {
  LayerNorm made;
  made.part.norm = {numbers<float>(weight, weight.size(), "weight"),
                    numbers<float>(bias, weight.size(), "bias"), epsilon};
  made.part.size = weight.size();
  made.owners = {owner_of(weight), owner_of(bias)};
  return made;
}

// Collects the parts of a model, and the owners of their memory.
class Collector {
 public:
  explicit Collector(Owners &owners) : owners(owners) {}

  Linear linear(const py::dict &parts, const char *name, int64_t inputs, int64_t outputs) {
    require(parts.contains(name), std::string(name) + ": missing");
    const auto &own = parts[name].cast<const PackedLinear &>();
    require(own.part.inputs == inputs && own.part.outputs == outputs,
            std::string(name) + ": the layer has other sizes");
    return take(own);
  }

  template <typename Part>
  const Part &take(const Owned<Part> &own) {
    owners.insert(owners.end(), own.owners.begin(), own.owners.end());
    return own.part;
  }

  Norm norm(const py::dict &parts, const char *name, int64_t size) {
    require(parts.contains(name), std::string(name) + ": missing");
    return take(parts[name].cast<const LayerNorm &>(), name, size);
  }

  Norm optional_norm(const py::dict &parts, const char *name, int64_t size) {
    return parts.contains(name) && !parts[name].is_none() ? norm(parts, name, size) : Norm();
  }

  Norm take(const LayerNorm &own, const char *name, int64_t size) {
    require(own.part.size == size, std::string(name) + ": the norm has another size");
    return take(own).norm;
  }

  const float *floats(const py::array &array, int64_t n, const char *name) {
    owners.push_back(owner_of(array));
    return numbers<float>(array, n, name);
  }

 private:
  Owners &owners;
};

int64_t size_of(const py::dict &linears, const char *name, bool of_outputs) {
  require(linears.contains(name), std::string(name) + ": missing");
  const auto &own = linears[name].cast<const PackedLinear &>();
  return of_outputs ? own.part.outputs : own.part.inputs;
}

Epilogue activation_of(int64_t number) {
  const auto activation = static_cast<Epilogue>(number);
  require(is_within(number, int64_t(Epilogue::SWISH) + 1) && activation != Epilogue::ADD,
          "activation: unknown number");
  return activation;
}

// The layers and embeddings of an encoder or a decoder.
Owned<Network> network(const std::vector<std::pair<py::dict, py::dict>> &layers, int64_t n_heads,
                int64_t head_dim, bool pre_norm, int64_t activation, int64_t tokens_per_step,
                py::array embed, float embed_scale, std::optional<LayerNorm> embed_norm,
                std::optional<LayerNorm> final_norm, std::optional<py::array> positions,
                int64_t eos, int64_t first_input, std::optional<int64_t> aligned_layer,
                std::optional<int64_t> aligned_heads) {
  Owned<Network> made;
  Collector collect(made.owners);
  Network &model = made.part;
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
  require(first_input < model.n_types, "first_input: has no embedding");
  model.eos = eos, model.first_input = first_input;
  model.aligned_layer = aligned_layer.value_or(model.n_layers - 1);
  model.aligned_heads = aligned_heads.value_or(n_heads);
  require(model.aligned_layer < model.n_layers && is_within(model.aligned_heads - 1, n_heads),
          "aligned_layer, aligned_heads: the network has fewer");
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
    if (linears.contains("recurrence")) {
      require(tokens_per_step == 1, "recurrence: only in decoders of one token a step");
      layer.recurrence = collect.linear(linears, "recurrence", dim, 2 * dim);
    } else {
      layer.self_qkv = collect.linear(linears, "self_qkv", dim, 3 * dim);
      layer.self_out = collect.linear(linears, "self_out", dim, dim);
    }
    if (linears.contains("cross_query")) {
      require(tokens_per_step, "cross_query: only in decoders");
      layer.cross_query = collect.linear(linears, "cross_query", dim, dim);
      layer.cross_out = collect.linear(linears, "cross_out", dim, dim);
    }
    layer.fc1 = collect.linear(linears, "fc1", dim, model.hidden);
    layer.fc2 = collect.linear(linears, "fc2", model.hidden, dim);
    layer.self_norm = collect.norm(norms, "self_norm", dim);
    if (layer.cross_query.outputs) layer.cross_norm = collect.norm(norms, "cross_norm", dim);
    layer.final_norm = collect.norm(norms, "final_norm", dim);
    layer.self_out_norm = collect.optional_norm(norms, "self_out_norm", dim);
    layer.fc1_norm = collect.optional_norm(norms, "fc1_norm", model.hidden);
    if (norms.contains("residual_scale"))
      layer.residual_scale =
          collect.floats(norms["residual_scale"].cast<py::array>(), dim, "residual_scale");
    require(made_layers->empty() || bool(layer.recurrence.outputs) ==
                                        bool((*made_layers)[0].recurrence.outputs),
            "recurrence: must be in all layers or in none");
    require(made_layers->empty() || layer.cross_query.outputs ==
                                        (*made_layers)[0].cross_query.outputs,
            "cross_query: must be in all layers or in none");
    made_layers->push_back(layer);
  }
  model.layers = made_layers->data();
  made.owners.push_back(made_layers);
  return made;
}

// Parallel prediction heads.
Owned<Heads> head_layers(const PackedLinear &hidden, const std::vector<PackedLinear> &outputs,
                       int64_t n_heads, bool gelu) {
  Owned<Heads> made;
  Collector collect(made.owners);
  auto layers = std::make_shared<std::vector<Linear>>();
  for (const PackedLinear &output : outputs) layers->push_back(collect.take(output));
  Heads &heads = made.part;
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
Owned<SequentialHeads> sequential_heads(const py::dict &linears, const py::dict &norms,
                                        int64_t n_heads, int64_t head_dim, int64_t activation,
                                        py::array embed, float embed_scale, int64_t layer) {
  Owned<SequentialHeads> made;
  Collector collect(made.owners);
  SequentialHeads &heads = made.part;
  Network &model = heads.step.network;
  const int64_t dim = n_heads * head_dim, hidden = size_of(linears, "fc1", true);
  const int64_t of_token = size_of(linears, "token", false);
  require(n_heads > 0 && head_dim > 0, "sequential: has no heads");
  require(embed.ndim() == 2 && of_token == dim + embed.shape(1),
          "token: has another number of inputs");
  model.dim = dim, model.n_heads = n_heads, model.head_dim = head_dim;
  model.hidden = std::max(of_token, hidden), model.activation = activation_of(activation);
  model.tokens_per_step = 1;
  model.embed = collect.floats(embed, embed.size(), "embed");
  model.n_types = embed.shape(0), model.embed_scale = embed_scale;
  heads.begin = collect.linear(linears, "begin", dim, dim);
  heads.token = collect.linear(linears, "token", of_token, dim);
  heads.query = collect.linear(linears, "query", dim, dim);
  heads.source = collect.linear(linears, "source", dim, dim);
  heads.fc1 = collect.linear(linears, "fc1", dim, hidden);
  heads.fc2 = collect.linear(linears, "fc2", hidden, dim);
  if (linears.contains("narrow")) {
    heads.narrow = collect.linear(linears, "narrow", dim, size_of(linears, "narrow", true));
    require(heads.narrow.outputs <= dim, "narrow: wider than the states");
  }
  heads.token_norm = collect.norm(norms, "token_norm", dim);
  heads.source_norm = collect.norm(norms, "source_norm", dim);
  heads.ffn_norm = collect.norm(norms, "ffn_norm", dim);
  heads.output_norm = collect.norm(norms, "output_norm", dim);
  heads.layer = layer;
  return made;
}

std::shared_ptr<Model> prepared_model(
    const Owned<Network> &decoder, const PackedLinear &output, bool rounds_keys,
    std::optional<PackedLinear> cross, std::optional<Owned<Network>> encoder,
    std::optional<Owned<Heads>> p1, std::optional<Owned<Heads>> heads,
    std::optional<Owned<SequentialHeads>> sequential, std::optional<PackedLinear> proposals) {
  auto model = std::make_shared<Model>();
  Collector collect(model->owners);
  const Network &own = decoder.part;
  require(own.tokens_per_step > 0, "decoder: is the network of an encoder");
  model->decoder = own;
  collect.take(decoder);
  if (encoder) {
    require(encoder->part.tokens_per_step == 0, "encoder: is the network of a decoder");
    require(cross && encoder->part.dim == cross->part.inputs,
            "cross: the inputs do not match the encoder");
    model->encoder = encoder->part;
    collect.take(*encoder);
  }
  require((cross ? cross->part.outputs : 0) ==
              (own.layers[0].cross_query.outputs ? own.n_layers * 2 * own.dim : 0),
          "cross: has another number of outputs");
  require(output.part.inputs == own.dim, "output: has another number of inputs");
  require(output.part.outputs <= own.n_types, "output: more outputs than embeddings");
  model->output = output.part;
  if (cross) model->cross = collect.take(*cross);
  collect.take(output);
  model->rounds_keys = rounds_keys;
  if (p1) {
    require(p1->part.n_heads == 1, "p1: has more than one head");
    require(p1->part.hidden.inputs == own.dim, "p1: has another number of inputs");
    model->p1 = p1->part;
    collect.take(*p1);
  }
  if (heads || sequential) {
    require(proposals && !(heads && sequential),
            "heads: need an output layer, and must be of one kind");
    const int64_t n_inputs = heads                              ? own.dim
                             : sequential->part.narrow.outputs ? sequential->part.narrow.outputs
                                                             : own.dim;
    require(proposals->part.inputs == n_inputs, "proposals: have another number of inputs");
    require(proposals->part.outputs <= own.n_types,
            "proposals: have more outputs than there are types");
    collect.take(*proposals);
  }
  if (heads) {
    require(heads->part.hidden.inputs == own.dim, "heads: have another number of inputs");
    model->heads = heads->part, model->proposals = proposals->part;
    collect.take(*heads);
  }
  if (sequential) {
    const Network &sizes = sequential->part.step.network;
    require(sizes.dim == own.dim && sizes.head_dim == own.head_dim,
            "sequential: has states of another size");
    require(sizes.n_types >= proposals->part.outputs, "sequential: more proposals than embeddings");
    require(is_within(sequential->part.layer, own.n_layers), "sequential: no such layer");
    model->sequential = sequential->part, model->proposals = proposals->part;
    collect.take(*sequential);
  }
  return model;
}

}  // namespace

inline void bind_models(py::module_ &module) {
  py::class_<PackedLinear>(module, "Linear")
      .def(py::init(&packed_linear), py::arg("weight"), py::arg("bias"), py::arg("inputs"),
           py::arg("outputs"), py::arg("scales") = py::none(),
           py::arg("compensation") = py::none())
      .def("__call__", &product, py::arg("x"), py::arg("n_threads") = 1);
  py::class_<LayerNorm>(module, "Norm")
      .def(py::init(&layer_norm), py::arg("weight"), py::arg("bias"), py::arg("epsilon"));
  py::class_<Owned<Network>>(module, "Network")
      .def(py::init(&network), py::arg("layers"), py::arg("n_heads"), py::arg("head_dim"),
           py::arg("pre_norm"), py::arg("activation"), py::arg("tokens_per_step"),
           py::arg("embed"), py::arg("embed_scale"), py::arg("embed_norm"), py::arg("final_norm"),
           py::arg("positions"), py::arg("eos") = -1, py::arg("first_input") = -1,
           py::arg("aligned_layer") = py::none(), py::arg("aligned_heads") = py::none());
  py::class_<Owned<Heads>>(module, "Heads")
      .def(py::init(&head_layers), py::arg("hidden"), py::arg("outputs"), py::arg("n_heads"),
           py::arg("gelu"));
  py::class_<Owned<SequentialHeads>>(module, "SequentialHeads")
      .def(py::init(&sequential_heads), py::arg("linears"), py::arg("norms"), py::arg("n_heads"),
           py::arg("head_dim"), py::arg("activation"), py::arg("embed"), py::arg("embed_scale"),
           py::arg("layer"));
  py::class_<Model, std::shared_ptr<Model>>(module, "Model")
      .def(py::init(&prepared_model), py::arg("decoder"), py::arg("output"),
           py::arg("rounds_keys"), py::arg("cross") = py::none(),
           py::arg("encoder") = py::none(), py::arg("p1") = py::none(),
           py::arg("heads") = py::none(), py::arg("sequential") = py::none(),
           py::arg("proposals") = py::none())
      .def_property_readonly("aligns", &Model::aligns);
}

}  // namespace fastdec
