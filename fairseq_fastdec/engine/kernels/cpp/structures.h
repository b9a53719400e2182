// The tasks of the kernels, and their parts.
//
// Terms:
//   row        one sequence that is being decoded or encoded
//   source     one encoded sentence; several rows can belong to it
//   slot       the place of a row or a source in a cache of keys and values
//   past       the tokens of a row whose keys and values are in the cache
//   new        the tokens of a row that this step computes
//   type       an entry of the dictionary; a token is an occurrence of a type
//   block      BLOCK outputs of a linear layer, whose weights are interleaved
//   pair       PAIR inputs, whose bf16 products one instruction adds
//   group      GROUP inputs, whose int8 products one instruction adds
//   scale      a quantised number q stands for scale * q
//   beam       rows that compete: only their best extensions are kept
// Letters and sizes in shapes:
//   n_threads  the maximum number of threads for a task
//   n          the number of tokens of a call: those of all rows in a step
//   dim        n_heads * head_dim, the size of a token's state
//   hidden     the size of the feed-forward network's inner layer
//   inputs, outputs   of a linear layer: y[n, outputs] = x[n, inputs] weight^T + bias
// Pointers are not null unless a comment says so. Strides count numbers unless stated.

#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "norm.h"

namespace fastdec {

constexpr int BLOCK = 32;
constexpr int PAIR = 2;
constexpr int GROUP = 4;

inline int64_t n_blocks_of(int64_t outputs) { return (outputs + BLOCK - 1) / BLOCK; }

inline bool is_within(int64_t number, int64_t end) { return number >= 0 && number < end; }

// A format of weights; linear.h has the table of formats.
struct Format {
  int number;  // its index in the table
  const char *dtype;  // numpy's dtype of the packed weights
  int group;  // the number of consecutive inputs whose weights are adjacent, in 4 bytes
  bool rounds_inputs;  // products read inputs that quantize() has written
  bool has_scales;     // the weights have scales, and the inputs a zero point
};

constexpr int MOST_FORMATS = 4;

// The use of a layer's sums: y = sum, y += sum, y = relu(sum), y = gelu(sum), ... The numbers are
// also in ACTIVATIONS in engine/network/heads.py.
enum class Epilogue { STORE, ADD, RELU, GELU, GELU_ACCURATE, TANH, SWISH };

// The costs of work and of several threads, in nanoseconds; see costs.h.
struct Costs {
  double of_byte;                   // reading a byte of weights, keys or values
  double of_product[MOST_FORMATS];  // a multiply-add, by the format's number
  double start;                     // starting the threads of a call
  double meeting_of_two, meeting_of_most;  // a barrier of two threads, and of most_threads
  int64_t most_threads;                    // 0: nothing has been measured
};

// The last block and the last group are padded with zeros.
struct Linear {
  const Format *format;  // null if the layer does not exist; it then has no outputs
  const void *weight;    // [blocks, groups, BLOCK, format->group]
  // Corrects the sums for the inputs' zero point; null in a format without scales.
  const int32_t *zero_point_compensation;  // [blocks, BLOCK]
  const float *scales;                     // [blocks, BLOCK]; null in a format without scales
  const float *bias;                       // [blocks, BLOCK]
  int64_t inputs, outputs;

  int64_t n_groups() const { return (inputs + format->group - 1) / format->group; }
  bool rounds_inputs() const { return format->rounds_inputs; }
};

// If cross_query has no outputs, the layer does not attend to sources. self_out_norm, fc1_norm and
// residual_scale are for NormFormer (Shleifer et al. 2021), and null in other models. If
// `recurrence` has outputs, the layer has a recurrent unit in place of self-attention.
struct Layer {
  Linear self_qkv, self_out, cross_query, cross_out, fc1, fc2;
  Linear recurrence;  // to the unit's inputs [dim] and forget gates [dim], see recurrence.h
  Norm self_norm, cross_norm, final_norm;
  Norm self_out_norm, fc1_norm;  // of the outputs of self_out [dim] and fc1 [hidden]
  const float *residual_scale;   // [dim], of the residual of the feed-forward network
};

struct Network {
  int64_t n_layers, dim, n_heads, head_dim, hidden, pre_norm;
  Epilogue activation;          // of feed-forward networks
  int64_t tokens_per_step;      // groups of this many tokens see each other; 0: all of a row do
  const Layer *layers;          // [n_layers]
  Norm embed_norm, final_norm;  // not applied if the weight is null
  const float *embed;           // [n_types, dim]
  const float *positions;       // [n_positions, dim]; null without positions
  int64_t n_types, n_positions;
  float embed_scale;
  // The decoder reads the type first_input where it is fed eos; -1: it reads what it is fed.
  int64_t eos, first_input;
  // Targets are aligned with sources by the first aligned_heads heads of a layer; -1: by none.
  int64_t aligned_layer, aligned_heads;

  bool is_recurrent() const { return n_layers && layers[0].recurrence.outputs; }
};

// Keys and values: [layers, 2, slots, heads, length, head_dim]. Recurrent units have their states
// after each token instead: [layers, 1, slots, 1, length, dim], in fp32.
struct Cache {
  void *data;
  int64_t is_bf16;                  // otherwise fp32
  int64_t layer, part, slot, head;  // strides; a part is the keys or the values of a layer
  int64_t slots, length;
};

// A barrier for the threads of a task; see threads.h.
struct Barrier {
  Barrier() = default;
  // Copies of a task have a new barrier.
  Barrier(const Barrier &) {}
  Barrier &operator=(const Barrier &) { return *this; }

  std::atomic<int64_t> arrived{0}, phase{0};
};

// Whether a chain of proposals with this log-probability is extended. After EOS it is -infinity.
inline bool goes_on(float chain_score, float confidence) {
  return chain_score > -INFINITY && (!(confidence > 0) || std::exp(chain_score) >= confidence);
}

// Appends a proposal with this log-probability to a chain, if it goes on. Chains end at EOS.
inline void prolong(int64_t &length, float &chain_score, float confidence, float score,
                    bool is_end) {
  if (goes_on(chain_score, confidence)) ++length;
  chain_score = is_end ? -INFINITY : chain_score + score;
}

// A step of a decoder, or a run of an encoder.
struct Step {
  Network network;
  Cache rows, sources;
  int64_t n_rows, n_sources, n_threads;
  const int64_t *begins;          // [n_rows + 1], the index of each row's first new token, and n
  const int64_t *tokens;          // [n], row by row
  int64_t *past;                  // [n_rows]
  const int64_t *row_slots;       // [n_rows], of new tokens; null: consecutive slots
  // [n_rows][past + new], the slot of each token; null: all tokens of a row are in its own slot.
  const int32_t *const *token_slots;
  const int64_t *row_source;      // [n_rows]
  const int64_t *source_lengths;  // [n_sources]; in an encoder these are the rows
  float *features;                // [n, dim]
  // The attention of the network's aligned_heads, each to the tokens of its source; null: not needed.
  float *attention;               // [n, aligned_heads, attention_width]
  int64_t attention_width;        // at least the length of every source
  float *scratch;                 // [scratch_before(*this, n_threads)]
  mutable Barrier barrier;

  int64_t n() const { return begins[n_rows]; }
  int64_t n_new(int64_t row) const { return begins[row + 1] - begins[row]; }
  int64_t row_of(int64_t token) const {
    return std::upper_bound(begins, begins + n_rows, token) - begins - 1;
  }
  int64_t slot_of(int64_t row) const { return row_slots ? row_slots[row] : row; }
  int64_t slot_of_token(int64_t row, int64_t token) const {
    return token_slots ? token_slots[row][token] : slot_of(row);
  }
  // The end of the rows from `begin` on that have the same source, as in a beam.
  int64_t end_of_beam(int64_t begin) const {
    int64_t end = begin + 1;
    while (end < n_rows && row_source[end] == row_source[begin]) ++end;
    return end;
  }
};

// One linear layer for n tokens.
struct Product {
  Linear linear;
  int64_t n, n_threads;
  const float *x;  // [n, inputs]
  float *y;        // [n, outputs]
  float *scratch;  // [quantized_size(n, inputs)]; null for fp32 weights
};

// A choice of the best next tokens of each of n states: its rules and results. Tokens are types;
// `never`, `eos` and `penalized` are the indices of outputs.
struct Choice {
  int64_t n, n_best, n_threads;
  int64_t outputs;
  const int64_t *types;      // [outputs], the types of the outputs; null: their indices
  const int64_t *never;      // [n_never], outputs that are not possible
  int64_t n_never, eos;
  int64_t penalized;         // the output whose logit is reduced by the penalty, or -1
  float penalty;
  const uint8_t *no_end;     // [n], whether EOS is not possible; null: it is possible everywhere
  // [n], whether only EOS is possible, even with probability 0 or NaN; null: nowhere.
  const uint8_t *only_end;
  const int64_t *forbidden;  // [n, n_forbidden], types that are not possible
  int64_t n_forbidden;
  float *scores;    // [n, n_best], best first; -infinity: no more candidates
  int64_t *tokens;  // [n, n_best]
  // Optionally, the scores of given tokens.
  const int64_t *asked;  // [n, n_asked], types, or -1 for none
  int64_t n_asked;
  float *asked_scores;   // [n, n_asked]; -infinity if the token is not possible
  float *scratch;        // [best_tokens_scratch_size] or [top_k_scratch_size]
};

// A choice from the output layer of one network.
struct BestTokens : Choice {
  Linear linear;
  int64_t normalize;  // scores are log-probabilities, otherwise logits
  float temperature;  // the divisor of the logits
  const float *x;     // [n, inputs]
  mutable Barrier barrier;
};

// Parallel prediction heads: y = x + outputs(activation(hidden(x))).
struct Heads {
  Linear hidden;
  const Linear *outputs;  // [n_outputs]: one for all heads, or one per head
  int64_t n_outputs, n_heads, gelu, n, n_threads;
  const float *x;  // [n, dim]
  float *y;        // [n, n_heads, dim]
  float *scratch;  // [heads_scratch_size]
  mutable Barrier barrier;
};

// A step of sequential prediction heads: each row's state reads one more token.
struct SequentialHeads {
  // The tokens are those that the states read; the features are the states. The network has no
  // layers, only sizes, activation and embeddings. Its `hidden` is the largest input size of a
  // layer.
  Step step;
  Linear begin, token, query, source, fc1, fc2;
  Linear narrow;  // a projection before the output layer; none if it has no outputs
  Norm token_norm, source_norm, ffn_norm, output_norm;
  int64_t layer;  // the decoder layer whose source keys and values are used
  const float *from_features;  // [n, dim], the input of the first step; null in later steps
  float *outputs;              // [n, dim or narrow's outputs], the inputs of the output layer
};

// Chains of the best tokens of sequential heads.
struct ProposalChains {
  SequentialHeads *heads;
  BestTokens *best;  // the choice of each step, with n_best = 1
  int64_t n_steps;   // the maximum number of steps
  // A chain ends with the token that makes it less probable than this. Steps are run while the mean
  // probability of the chains is at least this. 0: no limit, and `best` need not normalise.
  float confidence;
  const int64_t *next_tokens;        // [n_rows], the token before each chain
  const uint8_t *no_end, *only_end;  // [n_steps, n_rows], see Choice
  int64_t *proposals;                // [n_rows, n_steps]
  // [n_rows], at first 0: the proposals of each row that are used, and the chains' log-probabilities.
  int64_t *lengths;
  float *scores;
};

// Appends the tokens chosen in step `step` to the chains; returns whether another step is to be run.
inline bool prolong_chains(const ProposalChains &task, const Choice &best, int64_t step) {
  const int64_t eos = best.types && best.eos >= 0 ? best.types[best.eos] : best.eos;
  double chances = 0;
  for (int64_t row = 0; row < best.n; ++row) {
    task.proposals[row * task.n_steps + step] = best.tokens[row];
    prolong(task.lengths[row], task.scores[row], task.confidence, best.scores[row],
            best.tokens[row] == eos);
    chances += std::exp(task.scores[row]);
  }
  return !(task.confidence > 0) || chances >= double(task.confidence) * double(best.n);
}

// A choice by the mean of several models' probabilities, whose logarithm a language model adds to.
struct TopK : Choice {
  // [n_members], done; the rules are applied to their y. A language model's product follows.
  const Product *products;
  int64_t n_members;
  float lm_weight;  // of the language model's log-probabilities; 0: there is none
  // [n], the beam of each state, ascending; null: each state is a beam. Tokens that are not among
  // the n_of_beam best extensions of their beam may be missing.
  const int64_t *beams;
  int64_t n_of_beam;
  const float *totals;  // [n], with `beams`: the scores of the states' outputs so far
  // Instead of ranking, writes the log-probabilities of all outputs to the first product's y.
  int64_t all_log_probs;
};

}  // namespace fastdec
