#include "output_layers.h"

#include <cstring>

#include "rules.h"

namespace fastdec {

namespace {

// The index of an output's first element in [blocks, n_rows, BLOCK].
int64_t place_of(int64_t output, int64_t n_rows) {
  return output / BLOCK * n_rows * BLOCK + output % BLOCK;
}

}  // namespace

OutputLayer::OutputLayer(const Linear &all, const Rules &rules)
    : all(all), rules(rules), own(all) {
  number_rules();
}

int64_t OutputLayer::output_of(int64_t type) const {
  if (types.empty()) return type < own.outputs ? type : -1;
  const auto place = std::lower_bound(types.begin(), types.end(), type);
  return place != types.end() && *place == type ? place - types.begin() : -1;
}

void OutputLayer::take(const std::vector<int64_t> &wanted) {
  types.assign(wanted.begin(), std::lower_bound(wanted.begin(), wanted.end(), all.outputs));
  own = all;
  if (!types.empty()) {
    own.outputs = int64_t(types.size());
    gather(own.weight, all.n_groups(), weight);
    gather(own.bias, 1, bias);
    gather(own.scales, 1, scales);
    gather(own.zero_point_compensation, 1, compensation);
  }
  number_rules();
}

// Gathers a part of the layer, [blocks, n_rows, BLOCK], for the taken types; the last block is
// padded with zeros. A part that the layer does not have stays null.
template <typename T>
void OutputLayer::gather(const T *&part, int64_t n_rows, Buffer<Column> &to) {
  if (!part) return;
  const char *const from = reinterpret_cast<const char *>(part);
  const int64_t n_types = int64_t(types.size()), n_blocks = n_blocks_of(n_types);
  Column *const columns = to.reserve(n_blocks * n_rows * BLOCK);
  // Copies the columns of a block row by row, which is faster than one column after the other.
  for (int64_t first = 0; first < n_types; first += BLOCK) {
    const int64_t n = std::min<int64_t>(BLOCK, n_types - first);
    const char *wanted[BLOCK];
    for (int64_t i = 0; i < n; ++i)
      wanted[i] = from + place_of(types[first + i], n_rows) * sizeof(Column);
    Column *row = columns + first * n_rows;
    for (int64_t number = 0; number < n_rows; ++number, row += BLOCK) {
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(row + i, wanted[i] + number * BLOCK * sizeof(Column), sizeof(Column));
      std::fill(row + n, row + BLOCK, 0);
    }
  }
  part = reinterpret_cast<const T *>(columns);
}

void OutputLayer::number_rules() {
  never.clear();
  for (const int64_t type : rules.never)
    if (const int64_t output = output_of(type); output >= 0) never.push_back(output);
  eos = output_of(rules.eos);
  penalized = rules.unk_penalty != 0 ? output_of(rules.unk) : -1;
  penalty = rules.unk_penalty;
}

void OutputLayer::restrict(Choice &choice) const {
  choice.outputs = own.outputs, choice.types = types.empty() ? nullptr : types.data();
  choice.never = never.data(), choice.n_never = int64_t(never.size());
  choice.eos = eos;
  choice.penalized = penalized, choice.penalty = penalty;
}

OutputLayers::OutputLayers(const Models &models, const Rules &rules) : rules(rules) {
  for (const auto &model : models) of_p1.emplace_back(model->output, rules);
  for (const auto &model : models)
    if (model->proposes()) of_heads.emplace_back(model->proposals, rules);
}

std::shared_ptr<const Outputs> OutputLayers::of_types(const std::vector<int64_t> &types) const {
  if (types.empty()) return nullptr;
  auto outputs = std::make_shared<Outputs>();
  for (const OutputLayer &all : of_p1) {
    outputs->emplace_back(all.linear(), rules);
    outputs->back().take(types);
  }
  return outputs;
}

void OutputLayers::allow(const std::vector<const std::vector<int64_t> *> &of_sentences) {
  if (of_heads.empty()) return;
  std::vector<uint8_t> is_allowed;
  for (const std::vector<int64_t> *own : of_sentences) {
    if (own->empty()) return take({});
    is_allowed.resize(std::max<size_t>(is_allowed.size(), own->back() + 1), 0);
    for (const int64_t type : *own) is_allowed[type] = 1;
  }
  std::vector<int64_t> types;
  for (size_t type = 0; type < is_allowed.size(); ++type)
    if (is_allowed[type]) types.push_back(int64_t(type));
  take(std::move(types));
}

void OutputLayers::take(std::vector<int64_t> types) {
  if (types == taken) return;
  taken = std::move(types);
  for (OutputLayer &layer : of_heads) layer.take(taken);
}

std::vector<Product> products_with(const Outputs &layers, int64_t n,
                                   int64_t n_threads, Buffer<float> &logits) {
  const int64_t n_logits = n * layers[0].n_outputs();
  float *to = logits.reserve(int64_t(layers.size()) * n_logits);
  std::vector<Product> products;
  for (const OutputLayer &layer : layers) {
    Product product = {};
    product.linear = layer.linear(), product.n = n, product.n_threads = n_threads;
    product.y = to, to += n_logits;
    products.push_back(product);
  }
  return products;
}

}  // namespace fastdec
