// The rows that one worker decodes: their lengths, and their keys and values in each model.

#pragma once

#include <vector>

#include "kernels.h"
#include "model.h"
#include "rows.h"

namespace fastdec {

// Where each of n_rows rows begins if all have n_each tokens, and the end of the last one.
std::vector<int64_t> even_begins(int64_t n_rows, int64_t n_each);

// Sources as decoders attend to them: of each, the states [length, dim] of an encoder.
struct EncodedSources {
  std::vector<const float *> states;
  std::vector<int64_t> lengths;
};

// Keys and values in memory of their own, [layers, 2, slots, heads, length, head_dim]. What lies
// behind a slot's length is left over, and overwritten.
class KeyValueCache {
 public:
  KeyValueCache(const Model &model, bool is_bf16);

  // Makes room for `n` slots of `length` tokens; `used` says how many tokens of each slot stay.
  void reserve(int64_t n, int64_t length, const std::vector<int64_t> &used);
  // Writes [n tokens, layers, 2, heads, head_dim] to the beginning of a slot.
  void write(int64_t slot, int64_t first, const float *keys_values, int64_t n);
  // Slot i gets what slot origins[i] has in its first `length` tokens.
  void copy(const std::vector<int64_t> &origins, int64_t length, const Team &team);
  // Moves the tokens of a tree at path[n] to a slot's end.
  void keep_path(int64_t slot, int64_t length, const int64_t *path, int64_t n);

  Cache cache = {};

 private:
  int64_t bytes_of_number() const { return cache.is_bf16 ? 2 : 4; }
  int64_t n_parts() const { return 2 * n_layers; }
  char *at(const Cache &in, int64_t part, int64_t slot, int64_t head, int64_t token) const;

  int64_t n_layers, n_heads, head_dim;
  Buffer<char> memory, copied;
};

// Rows are numbered from 0. Each has a slot for its keys and values, and belongs to a source, whose
// keys and values are in another slot. Rows that change places keep their slots, so only rows that
// are there several times are copied.
class Decoder {
 public:
  Decoder(Models models, Team team);

  int64_t n_rows() const { return int64_t(past.size()); }
  int64_t n_models() const { return int64_t(members.size()); }
  const PreparedModel &model(int64_t member) const { return *models[member]; }
  const Team &team() const { return own_team; }
  void set_threads(int64_t n) { own_team.n = own_team.threads ? n : 1; }

  // Encodes the sources of sentences, and appends a row without tokens for each.
  void add(const std::vector<const Request *> &sentences);

  // Feeds rows their new tokens, which lie side by side.
  //   begins: where those of each row begin, and the end of the last one's
  //   parents: in trees, which of its row's new tokens each follows (-1: what was fed before);
  //     null: each follows the one before
  //   n_resting: the first rows are not fed, and the arrays begin with the others
  void step(const int64_t *tokens, const std::vector<int64_t> &begins, const int64_t *parents,
            int64_t n_resting = 0);

  // [n, dim] of the last step's n tokens.
  float *features(int64_t member) { return members[member].features.data(); }

  // A row keeps the first n tokens that were fed; of a tree, those at path[n].
  void keep(int64_t row, int64_t n, const int64_t *path);
  // The last row takes the place of a row that leaves.
  void remove(int64_t row);
  // Row i becomes what row origins[i] was. Rows may leave, change places, and be there several
  // times; sources without rows leave.
  void gather(const std::vector<int64_t> &origins);

  // Sets the rows of a task, but for the first ones that rest, and the sources that they attend to.
  void set_rows(int64_t member, int64_t n_resting, Step &task);

  int64_t length(int64_t row) const { return past[row]; }

 private:
  struct Member {
    Member(const PreparedModel &model);

    KeyValueCache rows, sources;
    std::vector<int64_t> source_lengths;  // by slot of a source; a free one has the length 0
    Step step;
    Buffer<float> features, scratch;
  };

  // The states by one model's encoder, in memory that the next call uses again.
  EncodedSources encode(const Model &encoder, const std::vector<const Request *> &sentences);
  // Keeps the keys and values of sources in these slots.
  void keep_sources(int64_t member, const EncodedSources &sources,
                    const std::vector<int64_t> &slots);
  // Of all models.
  std::vector<int64_t> free_sources(int64_t n);
  void free_source(int64_t slot);
  int64_t free_slot();
  // Makes room for the slots of all rows, of `length` tokens.
  void reserve_rows(int64_t length);

  Models models;
  Team own_team;
  std::vector<Member> members;
  // By row.
  std::vector<int64_t> past, row_slots, row_source;
  int64_t n_slots = 0;
  std::vector<int64_t> free_slots;
  // Memory that calls share.
  Buffer<float> encoded, encoder_scratch, keys_values, gathered;
  Buffer<char> encoder_cache;
};

}  // namespace fastdec
