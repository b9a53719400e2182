// A model as the engine decodes with it: prepared weights, which any number of decoders share.

#pragma once

#include <memory>
#include <vector>

#include "../kernels/cpp/structures.h"

namespace fastdec {

// Weights never change. The parts of a task that are not weights are zero here.
struct PreparedModel {
  Model encoder = {};  // without layers: sources come as the states of an encoder elsewhere
  Linear cross = {};   // from an encoder's states to the keys and values of all layers
  Model decoder = {};
  Linear output = {};  // p_1's, to the logits of all target types
  Heads p1 = {};       // before the output layer; without heads the features are its inputs
  bool rounds_keys = false;  // keys and values are kept in bf16

  // Prediction heads p_2, p_3, ... that know nothing of each other,
  Heads heads = {};
  // or sequential heads, which see the tokens before theirs.
  Draft drafter = {};
  Linear proposals = {};  // the output layer of either, to the logits of the first types or of all

  std::vector<std::shared_ptr<const void>> owners;  // of all that the pointers point to

  bool has_encoder() const { return encoder.n_layers > 0; }
  bool has_heads() const { return heads.n_heads > 0; }
  bool has_drafter() const { return drafter.begin.outputs > 0; }
  bool proposes() const { return has_heads() || has_drafter(); }
};

// The models of an ensemble.
using Models = std::vector<std::shared_ptr<const PreparedModel>>;

// The threads of a call, at most `n`.
struct Team {
  const Threads *threads = nullptr;  // null with one thread
  int64_t n = 1;
};

}  // namespace fastdec
