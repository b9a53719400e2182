// The rows of one worker: their lengths, and their keys and values in each model.

#pragma once

#include <vector>

#include "../kernels/cpp/kernels.h"
#include "model.h"
#include "request.h"

namespace fastdec {

// The index of each row's first token if all rows have n_each tokens, and the number of tokens.
std::vector<int64_t> even_begins(int64_t n_rows, int64_t n_each);

// The encoder states of sources, [length, dim] each.
struct EncodedSources {
  std::vector<const float *> states;
  std::vector<int64_t> lengths;
};

// Keys and values, or the states of recurrent units, see Cache. Data after a slot's length is
// undefined.
class KeyValueCache {
 public:
  // The keys and values of a network's layers.
  KeyValueCache(const Network &network, bool is_bf16);
  // What the layers keep of the tokens of rows.
  static KeyValueCache of_rows(const Network &network, bool is_bf16);

  // Makes room for n slots of `length` tokens; `used` has the number of tokens to keep per slot.
  void reserve(int64_t n, int64_t length, const std::vector<int64_t> &used);
  // Writes [n tokens, layers, 2, heads, head_dim] to the beginning of a slot.
  void write(int64_t slot, int64_t first, const float *keys_values, int64_t n);

  Cache cache = {};

 private:
  int64_t bytes_of_number() const { return cache.is_bf16 ? 2 : 4; }
  KeyValueCache(int64_t n_layers, int64_t of_layer, int64_t n_heads, int64_t head_dim,
                bool is_bf16);
  int64_t n_parts() const { return of_layer * n_layers; }
  char *at(const Cache &in, int64_t part, int64_t slot, int64_t head, int64_t token) const;

  int64_t n_layers, of_layer, n_heads, head_dim;
  Buffer<char> memory;
};

// Rows are numbered from 0. Each row has a slot for the keys and values of its new tokens, and belongs
// to a source, whose keys and values are in a slot of another cache. A duplicated row gets a slot of
// its own, and goes on reading its first tokens where they are: hypotheses of a beam share the keys
// of their common prefix. All rows of a source have the same length, so that no slot has two tokens
// in the same place.
class Decoder {
 public:
  explicit Decoder(Models models);

  int64_t n_rows() const { return int64_t(past.size()); }
  // The number of models that translate.
  int64_t n_models() const { return int64_t(members.size()) - has_language_model(); }
  // Whether a language model, number n_models(), reads the rows too.
  bool has_language_model() const { return models.back()->is_language_model(); }
  const Model &model(int64_t member) const { return *models[member]; }
  int64_t n_threads() const { return own_threads; }
  void set_threads(int64_t n) { own_threads = n; }

  // Encodes the sources of sentences, and appends an empty row for each.
  void add(const std::vector<const Request *> &sentences);

  // Feeds new tokens to the rows, n in total.
  //   begins: [n_rows + 1], the index of each row's first new token, and n
  //   n_resting: the number of first rows that are not fed; the arrays begin with the other rows
  void step(const int64_t *tokens, const std::vector<int64_t> &begins, int64_t n_resting = 0);

  // [n, dim] of the last step's n tokens.
  float *features(int64_t member) { return members[member].features.data(); }

  // The number of tokens or frames of a row's source, in the first model.
  int64_t source_length(int64_t row) const { return members[0].source_lengths[row_source[row]]; }
  // Whether steps record the attention to sources.
  void record_attention(bool is_needed) { records_attention = is_needed; }
  // Appends the attention [length of the source] of the last step's token number `token`, which was
  // fed to a row: the mean over heads and models.
  void append_attention(int64_t row, int64_t token, std::vector<float> &to) const;

  // Keeps the first n tokens that were fed to a row.
  void keep(int64_t row, int64_t n) { past[row] += n; }
  // Removes a row; the last row takes its place.
  void remove(int64_t row);
  // Row i becomes a copy of row origins[i]. Rows may be dropped, reordered and duplicated; sources
  // without rows are removed. Rows with the same source remain adjacent.
  void gather(const std::vector<int64_t> &origins);

  // Sets the rows of a task, without the first n_resting ones, and their sources.
  void set_rows(int64_t member, int64_t n_resting, Step &task);

 private:
  struct Member {
    Member(const Model &model);

    KeyValueCache rows, sources;
    std::vector<int64_t> source_lengths;  // by slot; free slots have length 0
    Step step;
    Buffer<float> features, attention, scratch;
  };

  // Runs one model's encoder. The next call overwrites the states.
  EncodedSources encode(const Network &encoder, const std::vector<const Request *> &sentences);
  // Stores the keys and values of sources in slots.
  void keep_sources(int64_t member, const EncodedSources &sources,
                    const std::vector<int64_t> &slots);
  // Slots of sources are the same in all models.
  std::vector<int64_t> free_sources(int64_t n);
  void free_source(int64_t slot);
  // A slot for a row of a source.
  int64_t free_slot(int64_t source);
  // Notes that the new tokens are in the rows' own slots, and returns the slots of each row's tokens;
  // nothing if all rows have only tokens in their own slots.
  std::vector<const int32_t *> token_slots_with(const std::vector<int64_t> &begins,
                                                int64_t n_resting);
  // Makes room for the slots of all rows, of `length` tokens.
  void reserve_rows(int64_t length);

  Models models;
  int64_t own_threads = 1;
  bool records_attention = false;
  std::vector<Member> members;
  // By row: length, slot, and slot of the source.
  std::vector<int64_t> past, row_slots, row_source;
  // By row: the slot of each token. Empty until a row is duplicated.
  std::vector<std::vector<int32_t>> token_slots;
  int64_t n_slots = 0;
  std::vector<int64_t> free_slots;
  // By source: the slots of dropped rows, which other rows may still read.
  std::vector<std::vector<int64_t>> dropped_slots;
  // Temporary memory.
  Buffer<float> encoded, encoder_scratch, keys_values, gathered;
  Buffer<char> encoder_cache;
};

}  // namespace fastdec
