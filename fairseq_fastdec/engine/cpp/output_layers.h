// The output layers of a search: over all types, or over those that its sentences may use.
//
// Kernels number a layer's outputs. With a shortlist these are not the types' numbers.

#pragma once

#include <vector>

#include "memory.h"
#include "model.h"

namespace fastdec {

struct Rules;

// A layer from states to the logits of types, of which some may be left out.
class OutputLayer {
 public:
  OutputLayer(const Linear &all, const Rules &rules);

  // From now on it computes these types alone, ascending, as far as it has them; all if there are
  // none.
  void take(const std::vector<int64_t> &types);

  const Linear &linear() const { return own; }
  int64_t n_outputs() const { return own.outputs; }
  int64_t type_of(int64_t output) const { return types.empty() ? output : types[output]; }
  // The output that stands for a type, or -1.
  int64_t output_of(int64_t type) const;
  // [n_outputs], the types of the outputs; null: their numbers.
  const int64_t *types_or_null() const { return types.empty() ? nullptr : types.data(); }

  // Sets what rules say about all states of a choice among the outputs: a BestToken or a TopK.
  template <typename Choice>
  void restrict(Choice &choice) const {
    choice.never = never.data(), choice.n_never = int64_t(never.size());
    choice.eos = eos;
    choice.penalized = penalized, choice.penalty = penalty;
  }

 private:
  // 4 bytes: a group of weights, or what there is once for each output.
  using Column = uint32_t;
  template <typename T>
  void gather(const T *&part, int64_t n_rows, Buffer<Column> &to);
  void number_rules();

  const Linear all;
  const Rules &rules;
  Linear own;
  std::vector<int64_t> types;
  // Of the rules, by outputs.
  std::vector<int64_t> never;
  int64_t eos = 0, penalized = -1;
  float penalty = 0;
  // The gathered parts of the layer.
  Buffer<Column> weight, bias, scales, compensation;
};

// Those of all models, and of their prediction heads.
class OutputLayers {
 public:
  OutputLayers(const Models &models, const Rules &rules);

  // Of each sentence under way, the types that it may use, ascending; empty: all. From now on the
  // layers compute what at least one of them may use: what is gathered once serves many steps.
  void allow(const std::vector<const std::vector<int64_t> *> &of_sentences);

  // p_1's. The layers of all models have the same outputs, and so have those of their heads.
  const OutputLayer &of_model(int64_t member) const { return of_models[member]; }
  const OutputLayer &of_proposals(int64_t member) const {
    return (of_heads.empty() ? of_models : of_heads)[member];
  }

 private:
  void take(std::vector<int64_t> types);

  std::vector<OutputLayer> of_models;
  std::vector<OutputLayer> of_heads;  // empty: they have p_1's
  std::vector<int64_t> taken;
};

}  // namespace fastdec
