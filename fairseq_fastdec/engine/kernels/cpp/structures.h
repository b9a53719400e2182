// The tasks that the engine gives to kernels, and what they are made of.
//
// Words:
//   row        one sentence that is being decoded or encoded
//   source     one encoded sentence; several rows can belong to it
//   slot       the place of a row or a source in a cache of keys and values
//   past       the tokens of a row whose keys and values lie in the cache already
//   new        the tokens of a row that this step computes
//   type       an entry of the dictionary; a token is an occurrence of a type
//   block      BLOCK outputs of a linear layer, whose weights lie side by side
//   pair       PAIR inputs, whose bf16 products one instruction sums up
//   group      GROUP inputs, whose int8 products one instruction sums up
//   scale      a quantised number q stands for scale * q
//   beam       rows of which only the best extensions survive
// Letters and sizes in shapes:
//   n          all tokens of a call, those of all rows of a step
//   dim        n_heads * head_dim, the size of a token's state
//   hidden     the size of the feed-forward network's inner layer
//   inputs, outputs   of a linear layer: y[n, outputs] = x[n, inputs] weight^T + bias
// Pointers may be null where a comment says so. Strides count numbers unless they say bytes.

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

// A format of weights; linear.h has the table of them.
struct Format {
  int number;  // its place in the table
  const char *dtype;  // numpy's, of the packed weights
  // This many inputs' weights of an output lie side by side, in 4 bytes.
  int group;
  bool rounds_inputs;  // products read inputs that quantize() has written
  bool has_scales;     // of the weights; the inputs then have a zero point
};

constexpr int MOST_FORMATS = 4;

// An epilogue uses a layer's sums: y = sum, y += sum, y = relu(sum), y = gelu(sum), ... Python knows
// their numbers as ACTIVATIONS in engine/network/heads.py.
enum class Epilogue { STORE, ADD, RELU, GELU, GELU_ACCURATE, TANH };

// At most so many tokens of a tree can follow each other.
constexpr int64_t MAX_TREE_DEPTH = 64;

// What a thread's work costs, and to have several threads, in nanoseconds; see costs.h.
struct Costs {
  double of_byte;                   // of weights, keys and values
  double of_product[MOST_FORMATS];  // by the format's number
  double start;  // of a call's threads
  double meeting_of_two, meeting_of_most;  // of two threads, and of most_threads
  int64_t most_threads;                    // 0: nothing has been measured
};

// The functions of a pool of threads: parallel calls fn(data) in n_threads threads, or in fewer.
// Tasks say how many threads they may have at most.
struct Threads {
  void (*parallel)(void (*fn)(void *), void *data, unsigned n_threads, unsigned flags);
  int (*number)();
  int (*count)();
  Costs costs;
};

// The last block and the last group are filled up with zeros.
struct Linear {
  const Format *format;  // null in a layer that is not there, which has no outputs
  const void *weight;    // [blocks, groups, BLOCK, format->group]
  // Takes the inputs' zero point out of the sums; null in a format without scales.
  const int32_t *zero_point_compensation;  // [blocks, BLOCK]
  const float *scales;                     // [blocks, BLOCK], of the weights; or null
  const float *bias;                       // [blocks, BLOCK]
  int64_t inputs, outputs;

  int64_t n_groups() const { return (inputs + format->group - 1) / format->group; }
  bool rounds_inputs() const { return format->rounds_inputs; }
};

// Without outputs of cross_query a layer does not attend to sources. The last two norms and the
// scale are NormFormer's (Shleifer et al. 2021); without them they are null.
struct Layer {
  Linear self_qkv, self_out, cross_query, cross_out, fc1, fc2;
  Norm self_norm, cross_norm, final_norm;
  Norm self_out_norm, fc1_norm;  // of what these layers give, the second one [hidden]
  const float *residual_scale;   // [dim], of what the feed-forward network is added to
};

struct Model {
  int64_t n_layers, dim, n_heads, head_dim, hidden, pre_norm;
  Epilogue activation;          // of feed-forward networks
  int64_t tokens_per_step;      // so many new tokens see each other; 0: all of a row do
  const Layer *layers;          // [n_layers]
  Norm embed_norm, final_norm;  // with a null weight there is no norm
  const float *embed;           // [n_types, dim]
  const float *positions;       // [n_positions, dim], null without positions
  int64_t n_types, n_positions;
  float embed_scale;
};

// Keys and values: [layers, 2, slots, heads, length, head_dim].
struct Cache {
  void *data;
  int64_t is_bf16;                  // or else fp32
  int64_t layer, part, slot, head;  // strides; a part is the keys or the values of a layer
  int64_t slots, length;
};

// Threads wait here for each other; see threads.h.
struct Barrier {
  Barrier() = default;
  // A copy of a task begins without threads.
  Barrier(const Barrier &) {}
  Barrier &operator=(const Barrier &) { return *this; }

  std::atomic<int64_t> arrived{0}, phase{0};
};

// Whether heads propose something behind a path with this log-probability. EOS has -infinity.
inline bool goes_on(float path_score, float confidence) {
  return path_score > -INFINITY && (!(confidence > 0) || std::exp(path_score) >= confidence);
}

// One run of a decoder's or an encoder's layers.
struct Step {
  Model model;
  const Threads *threads;  // null with one thread
  Cache rows, sources;
  int64_t n_rows, n_sources, first_slot, n_threads;
  const int64_t *begins;          // [n_rows + 1], where the new tokens of each row begin, and n
  const int64_t *tokens;          // [n], row by row
  const int64_t *parents;         // [n], which token of its row each follows; null: the one before
  int64_t *past;                  // [n_rows]
  const int64_t *row_slots;       // [n_rows]; null: they follow each other from first_slot on
  const int64_t *row_source;      // [n_rows]
  const int64_t *source_lengths;  // [n_sources]; an encoder's rows are their own sources
  float *features;                // [n, dim]
  float *scratch;                 // [scratch_size]
  int64_t scratch_size;
  mutable Barrier barrier;

  int64_t n() const { return begins[n_rows]; }
  int64_t n_new(int64_t row) const { return begins[row + 1] - begins[row]; }
  int64_t row_of(int64_t token) const {
    return std::upper_bound(begins, begins + n_rows, token) - begins - 1;
  }
  int64_t slot_of(int64_t row) const { return row_slots ? row_slots[row] : first_slot + row; }
};

// One linear layer for n tokens.
struct Product {
  Linear linear;
  const Threads *threads;  // null with one thread
  int64_t n, n_threads;
  const float *x;  // [n, inputs]
  float *y;        // [n, outputs]
  float *scratch;  // [quantized_size(n, inputs)], null with a weight in fp32
};

// The best next token of each of n states, by the output layer.
struct BestToken {
  Linear linear;
  const Threads *threads;  // null with one thread
  int64_t n, n_threads;
  int64_t normalize;      // logits become log-probabilities
  const int64_t *never;   // [n_never], outputs that are not possible
  int64_t n_never, eos;   // eos: an output, too
  int64_t penalized;      // the output whose score loses the penalty, or -1
  float penalty;
  float temperature;      // divides the logits
  const float *x;         // [n, inputs]
  const uint8_t *no_end;    // [n], whether EOS is not possible; null: it is
  const uint8_t *only_end;  // [n], whether EOS alone is possible; null: all are
  const int64_t *forbidden;  // [n, n_forbidden], types that are not possible
  int64_t n_forbidden;
  const int64_t *types;     // [outputs], the types that they stand for; null: their numbers
  float *scratch;           // [scratch_size]
  int64_t scratch_size;
  float *scores;    // [n]; -infinity: no token has a probability
  int64_t *tokens;  // [n]
  // Some states are asked about a token besides.
  const int64_t *asked;  // [n], a type or -1; null: none is
  float *asked_scores;   // [n]; -infinity: it is not possible
  mutable Barrier barrier;
};

// Prediction heads over features: y = x + outputs(activation(hidden(x))).
struct Heads {
  Linear hidden;
  const Linear *outputs;  // [n_outputs]: one for all heads, or one for each
  const Threads *threads;  // null with one thread
  int64_t n_outputs, n_heads, gelu, n, n_threads;
  const float *x;  // [n, dim]
  float *y;        // [n, n_heads, dim]
  float *scratch;  // [scratch_size]
  int64_t scratch_size;
  mutable Barrier barrier;
};

// A step of sequential prediction heads: one token more for each of a row's states.
struct Draft {
  // Its new tokens follow the states, which are its features. The model has no layers: of it, the
  // sizes, the activation and the embeddings are read. Its `hidden` is that of the widest inputs.
  Step step;
  Linear begin, token, query, source, fc1, fc2;
  Linear narrow;  // before the output layer; without outputs: the normalised states are its inputs
  Norm token_norm, source_norm, ffn_norm, output_norm;
  int64_t layer;  // whose keys and values of the sources are attended to
  const float *from_features;  // [n, dim], what they begin with; null: the states go on
  float *outputs;              // [n, dim or narrow's outputs], the output layer's inputs
};

// Chains of the best token of each step.
struct DraftChains {
  Draft *draft;     // of one state a row
  BestToken *best;  // whose states, tokens and scores are those of each step
  int64_t n_steps;  // the most
  // A chain ends behind the token that makes it less probable than this, and steps are taken while
  // the mean probability of all chains is at least this. 0: no chain ends, and best has logits.
  float confidence;
  const int64_t *next_tokens;        // [n_rows], behind which the chains go on
  const uint8_t *no_end, *only_end;  // [n_steps, n_rows], see BestToken
  int64_t *proposals;                // [n_rows, n_steps]
  int64_t *lengths;                  // [n_rows], of the chains
  float *path_scores;                // [n_rows], memory for the chains' log-probabilities
};

// The best next tokens of each row, or of each beam.
struct TopK {
  const Threads *threads;  // null with one thread
  int64_t n_rows, n_types, n_best, n_threads;
  int64_t n_per_row;     // the most of a beam's that may continue one of its rows
  int64_t normalize;     // the scores are logits and become log-probabilities
  const int64_t *never;  // [n_never], tokens that are not possible
  int64_t n_never, eos;
  int64_t penalized;  // the token whose score loses the penalty, or -1
  float penalty;
  const float *const *scores;  // [n_members], each [n_rows, n_types]; probabilities are averaged
  int64_t n_members;
  const int64_t *only;    // [n_rows], the one token that is possible, or -1; null: any is
  const uint8_t *no_end;  // [n_rows], whether EOS is not possible; null: it is
  // [n_rows], whether EOS alone is possible, be its probability 0 or NaN; null: nowhere.
  const uint8_t *has_to_end;
  const int64_t *forbidden;  // [n_rows, n_forbidden], tokens that are not possible
  int64_t n_forbidden;
  int64_t n_beams;        // the rows of a beam compete with each other
  const int64_t *rows;    // [n_rows], beam by beam; null: each row is a beam
  const int64_t *starts;  // [n_beams + 1], where each beam begins in rows
  const float *totals;    // [n_rows], the scores of the rows so far; null: all are 0
  int64_t n_parts;        // a beam's rows are divided into parts, for threads to share them
  void *scratch;          // [top_k_scratch_size] bytes
  float *best;            // [n_beams, n_best], best first; -infinity: there is none
  int64_t *tokens;        // [n_beams, n_best]
  int64_t *origins;       // [n_beams, n_best], their rows; null: nobody asks
};

// From the best tokens of each head to a tree of the most probable paths.
struct Trees {
  int64_t n_rows, n_heads, n_best, n_proposals, eos;
  float confidence;       // nothing follows paths that are less probable
  const int64_t *roots;   // [n_rows]
  const float *scores;    // [n_rows, n_heads, n_best], log-probabilities, best first
  const int64_t *ranked;  // [n_rows, n_heads, n_best], their tokens
  int64_t *begins;  // [n_rows + 1], where the trees begin, and the end of the last one
  int64_t *tokens, *parents, *depths;  // room for n_rows * (1 + n_proposals)
};

// Trees of the most probable paths, of which the best ones of each level go on to the next. The
// members of an ensemble read the same tokens.
struct DraftTrees {
  Draft *draft;      // [n_members], of up to `width` states a row
  Product *product;  // [n_members], output layers, whose y has room for the logits of all states
  TopK *best;        // of the products' logits: n_proposals for each state
  const int64_t *types;  // [outputs], the types that they stand for; null: their numbers
  int64_t n_members, n_levels, n_proposals, width, eos;
  float temperature;                 // divides the logits
  float confidence;                  // nothing follows paths that are less probable
  const uint8_t *no_end, *only_end;  // [n_levels, n_rows], see TopK; null: all may end, none has to
  uint8_t *flags;                    // [2, n_rows * width], memory for those of a level's states
  float *states;                     // [n_rows * width, dim], memory
  const int64_t *roots;              // [n_rows]
  int64_t *begins, *tokens, *parents, *depths;  // see Trees
};

// The beams of a search, of which a step expands those in focus. The arrays are the search's own.
struct BeamTable {
  int64_t n_slots, n_lengths, width;  // a beam has at most `width` entries, and so many final ones
  // By slot, which belongs to one sentence at a time: [n_slots].
  int64_t *lengths, *widths, *steps, *expansions, *n_final, *n_waiting;
  float *best_final;
  // [n_slots, width]: candidates that ended, as the entry that EOS follows.
  float *final_scores;
  int64_t *final_lengths, *final_columns;
  float *waiting_scores;  // best first
  int64_t *waiting_lengths, *waiting_columns;
  // The entries that the beams ever had: [n_slots, n_lengths, width].
  int32_t *tokens, *parents;
  float *scores;
  int64_t eos, lets_wait;
  float threshold;
  // The beams in focus have rows; there is room for most_beams and their rows.
  int64_t most_beams, n_beams, n_rows;
  int64_t *focus;                           // [n_beams], their slots
  int64_t *row_slots, *columns;             // [n_rows]
  int64_t *next_tokens;                     // [n_rows], what the next step is fed
  float *totals;                            // [n_rows]
  int64_t *rows, *starts;                   // [n_rows] beam by beam, [n_beams + 1]
  int64_t *origins;                         // [n_rows], the row that each row was before
  int64_t n_candidates;                     // of each beam, best first; -infinity: there is none
  const float *candidate_scores;            // [n_beams, n_candidates]
  const int64_t *candidate_tokens, *candidate_rows;
  // What grows of the candidates, [most_beams, width]; each beam has as many as its width.
  float *child_scores;
  int64_t *child_tokens, *child_columns, *child_rows;
  uint8_t *done;         // [most_beams], of a beam whose sentence is done
  const int64_t *order;  // [n_kept], the beams that go on; null: the first n_kept
  int64_t n_kept;
  int64_t shortest, longest;  // lengths of beams in focus
  void *scratch;              // [scratch_size] bytes
  int64_t scratch_size;
};

// Hypotheses that are followed back to their first token. One behind the other, each with EOS.
struct Trace {
  int64_t n_slots, n_lengths, width;
  const int32_t *history_tokens, *history_parents;  // [n_slots, n_lengths, width]
  const float *history_scores;
  int64_t eos, n, n_tokens;
  const int64_t *slots, *lengths, *columns;  // [n], the entries that EOS follows
  const float *totals;                       // [n]
  int64_t *tokens;                           // [n_tokens]
  float *scores;                             // [n_tokens], of each token
};

// Rows of a cache change their places.
struct Move {
  const Threads *threads;  // null with one thread
  int64_t n_threads;
  int64_t few_bytes;  // so many are moved by one thread
  char *data;
  int64_t n_parts, n_slots, n_heads;  // a part is the keys or the values of a layer
  int64_t part, slot, head;           // strides in bytes
  int64_t used;                       // bytes of each head
  const int64_t *origins;             // [n], the slot whose content each slot gets
  int64_t n;
  char *scratch;  // [scratch_size]; see scratch_size_of
  int64_t scratch_size;
};

// Of the tokens of trees those on a path move to the ends of their rows.
struct PathMove {
  char *data;
  int64_t n_parts, n_slots, n_heads, length;  // a part is the keys or the values of a layer
  int64_t part, slot, head, token;            // strides in bytes; a token's keys lie together
  int64_t n_rows, n_path, first_slot;
  const int64_t *starts;  // [n_rows], where each row ends
  const int64_t *path;    // [n_rows, n_path], distances from there, each behind the one before
};

}  // namespace fastdec
