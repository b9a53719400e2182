// The output layers of a search, for all types or for those of shortlists.
//
// Kernels use the indices of a layer's outputs. With a shortlist these differ from the types.

#pragma once

#include <vector>

#include "../kernels/cpp/memory.h"
#include "model.h"
#include "request.h"

namespace fastdec {

struct Rules;

// A layer from states to the logits of all or some types.
class OutputLayer {
 public:
  OutputLayer(const Linear &all, const Rules &rules);

  // Restricts the layer to these types, ascending, if it has them; empty: all types.
  void take(const std::vector<int64_t> &types);

  const Linear &linear() const { return own; }
  int64_t n_outputs() const { return own.outputs; }
  int64_t type_of(int64_t output) const { return types.empty() ? output : types[output]; }
  // The output of a type, or -1.
  int64_t output_of(int64_t type) const;

  // Sets the outputs of a choice, and the rules that apply to all of its states.
  void restrict(Choice &choice) const;

 private:
  // 4 bytes: a group of weights, or a bias, scale or compensation.
  using Column = uint32_t;
  template <typename T>
  void gather(const T *&part, int64_t n_rows, Buffer<Column> &to);
  void number_rules();

  const Linear all;
  const Rules &rules;
  Linear own;
  std::vector<int64_t> types;
  // The rules in terms of outputs.
  std::vector<int64_t> never;
  int64_t eos = 0, penalized = -1;
  float penalty = 0;
  // The gathered parts of the layer.
  Buffer<Column> weight, bias, scales, compensation;
};

// The output layers of all models and their prediction heads.
class OutputLayers {
 public:
  OutputLayers(const Models &models, const Rules &rules);

  // The output layers of p_1. All models have the same outputs, and so do all of their heads.
  const Outputs &of_models() const { return of_p1; }
  // Those of p_1 for these types, ascending; null for all, if there are none. Each sentence has its
  // own, so that it does not depend on others.
  std::shared_ptr<const Outputs> of_types(const std::vector<int64_t> &types) const;

  // Those of the heads, in the order of the models that have heads.
  const Outputs &of_proposals() const { return of_heads; }
  // Restricts the heads to the types that at least one sentence may use. Proposals are verified, so
  // a proposal that its sentence may not use does no harm.
  //   of_sentences: the types of each sentence, ascending; empty: all
  void allow(const std::vector<const std::vector<int64_t> *> &of_sentences);

 private:
  void take(std::vector<int64_t> types);

  const Rules &rules;
  Outputs of_p1, of_heads;
  std::vector<int64_t> taken;  // by the heads
};

// The products of n states with the layers of all models, and memory for their logits.
std::vector<Product> products_with(const Outputs &layers, int64_t n,
                                   int64_t n_threads, Buffer<float> &logits);

}  // namespace fastdec
