// The prepared weights of a model, which any number of decoders share.

#pragma once

#include <memory>
#include <vector>

#include "../kernels/cpp/structures.h"

namespace fastdec {

// Weights are immutable. Fields of tasks other than weights are zero here.
struct Model {
  Network encoder = {};  // has no layers if sources are given as encoder states
  // From encoder states to the keys and values of all layers; a language model has no outputs here.
  Linear cross = {};
  Network decoder = {};
  Linear output = {};  // the output layer of p_1, to the logits of all target types
  Heads p1 = {};       // before the output layer; has no heads if p_1 is the identity
  bool rounds_keys = false;  // keys and values are stored in bf16

  // Parallel prediction heads p_2, p_3, ...,
  Heads heads = {};
  // or sequential ones.
  SequentialHeads sequential = {};
  Linear proposals = {};  // the output layer of these heads, for the first types or all

  std::vector<std::shared_ptr<const void>> owners;  // of the memory of all pointers

  bool is_language_model() const { return !cross.outputs; }
  // Whether steps can record the attention that aligns targets with sources; language models have
  // none to record.
  bool aligns() const {
    return is_language_model() || (decoder.tokens_per_step == 1 && decoder.aligned_layer >= 0);
  }
  bool has_encoder() const { return encoder.n_layers > 0; }
  bool has_heads() const { return heads.n_heads > 0; }
  bool has_sequential() const { return sequential.begin.outputs > 0; }
  bool proposes() const { return has_heads() || has_sequential(); }
};

// The models of an ensemble; the last one may be a language model.
using Models = std::vector<std::shared_ptr<const Model>>;

}  // namespace fastdec
