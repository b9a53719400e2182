#include "decoder.h"

#include <cassert>
#include <cstring>

#include "../kernels/cpp/keys_values.h"

namespace fastdec {

namespace {

// Tokens of sources whose keys and values are computed together.
constexpr int64_t SOURCE_TOKENS = 128;
// Rows get room for this many tokens at first.
constexpr int64_t FIRST_LENGTH = 32;

}  // namespace

KeyValueCache::KeyValueCache(const Model &model, bool is_bf16)
    : n_layers(model.n_layers), n_heads(model.n_heads), head_dim(model.head_dim) {
  cache.is_bf16 = is_bf16;
}

char *KeyValueCache::at(const Cache &in, int64_t part, int64_t slot, int64_t head,
                        int64_t token) const {
  const int64_t number = part * in.part + slot * in.slot + head * in.head + token * head_dim;
  return static_cast<char *>(in.data) + number * bytes_of_number();
}

void KeyValueCache::reserve(int64_t n, int64_t length, const std::vector<int64_t> &used) {
  if (n <= cache.slots && length <= cache.length) return;
  const Cache old = cache;
  Buffer<char> old_memory;
  const int64_t n_used = std::min<int64_t>(int64_t(used.size()), cache.slots);
  const bool is_empty = std::all_of(used.begin(), used.begin() + n_used, [](int64_t n_tokens) {
    return n_tokens == 0;
  });
  cache.slots = std::max(n, cache.slots);
  cache.length = length > cache.length ? std::max(length, 2 * cache.length) : cache.length;
  cache.head = cache.length * head_dim;
  cache.slot = cache.head * n_heads;
  cache.part = cache.slot * cache.slots;
  cache.layer = 2 * cache.part;
  const int64_t n_bytes = n_parts() * cache.part * bytes_of_number();
  if (!is_empty) old_memory.swap(memory);
  cache.data = memory.reserve(n_bytes);
  if (is_empty) return;
  const int64_t token = head_dim * bytes_of_number();
  for (int64_t part = 0; part < n_parts(); ++part)
    for (int64_t slot = 0; slot < n_used; ++slot)
      for (int64_t head = 0; head < n_heads; ++head)
        std::memcpy(at(cache, part, slot, head, 0), at(old, part, slot, head, 0),
                    used[slot] * token);
}

void KeyValueCache::write(int64_t slot, int64_t first, const float *keys_values, int64_t n) {
  for (int64_t token = 0; token < n; ++token)
    for (int64_t part = 0; part < n_parts(); ++part)
      for (int64_t head = 0; head < n_heads; ++head, keys_values += head_dim) {
        char *const to = at(cache, part, slot, head, first + token);
        if (cache.is_bf16)
          round_to(keys_values, reinterpret_cast<Bf16 *>(to), head_dim);
        else
          round_to(keys_values, reinterpret_cast<float *>(to), head_dim);
      }
}

void KeyValueCache::copy(int64_t from, int64_t to, int64_t length) {
  const int64_t n_bytes = length * head_dim * bytes_of_number();
  for (int64_t part = 0; part < n_parts(); ++part)
    for (int64_t head = 0; head < n_heads; ++head)
      std::memcpy(at(cache, part, to, head, 0), at(cache, part, from, head, 0), n_bytes);
}

void KeyValueCache::keep_path(int64_t slot, int64_t length, const int64_t *path, int64_t n) {
  PathMove move = {};
  const int64_t number = bytes_of_number();
  move.data = static_cast<char *>(cache.data);
  move.n_parts = n_parts(), move.n_slots = cache.slots, move.n_heads = n_heads;
  move.length = cache.length;
  move.part = cache.part * number, move.slot = cache.slot * number;
  move.head = cache.head * number, move.token = head_dim * number;
  move.n_rows = 1, move.n_path = n, move.first_slot = slot;
  move.starts = &length, move.path = path;
  run(move);
}

Decoder::Member::Member(const PreparedModel &model)
    : rows(model.decoder, model.rounds_keys), sources(model.decoder, model.rounds_keys), step() {
  step.model = model.decoder;
}

Decoder::Decoder(Models given, Team team) : models(std::move(given)), own_team(team) {
  for (const auto &model : models) members.emplace_back(*model);
}

int64_t Decoder::free_source() {
  for (size_t slot = 0; slot < source_lengths.size(); ++slot)
    if (!source_lengths[slot]) return int64_t(slot);
  source_lengths.push_back(0);
  return int64_t(source_lengths.size()) - 1;
}

void Decoder::add(const SourceBatch &batch) {
  std::vector<int64_t> slots(batch.n);
  const std::vector<int64_t> lengths_before = source_lengths;
  for (int64_t i = 0; i < batch.n; ++i) {
    slots[i] = free_source();
    source_lengths[slots[i]] = batch.lengths[i];
    past.push_back(0);
    row_source.push_back(slots[i]);
  }
  for (int64_t member = 0; member < n_models(); ++member) {
    const PreparedModel &own = model(member);
    members[member].sources.reserve(int64_t(source_lengths.size()), batch.width, lengths_before);
    const bool encodes = batch.states.empty();
    const float *states = encodes ? encode(own, batch) : batch.states[member];
    keep_sources(member, batch, states, slots);
  }
}

const float *Decoder::encode(const PreparedModel &own, const SourceBatch &batch) {
  const Model &encoder = own.encoder;
  const int64_t n_tokens = batch.n * batch.width;
  std::vector<int64_t> nothing(batch.n, 0), numbers(batch.n);
  for (int64_t i = 0; i < batch.n; ++i) numbers[i] = i;
  Step task = {};
  task.model = encoder;
  // All layers write to the same place: none needs another's.
  Cache &cache = task.rows;
  cache.length = batch.width, cache.slots = batch.n;
  cache.head = cache.length * encoder.head_dim;
  cache.slot = cache.head * encoder.n_heads;
  cache.part = cache.slot * cache.slots;
  cache.data = encoder_cache.reserve(2 * cache.part * int64_t(sizeof(float)));
  task.threads = own_team.threads, task.n_threads = own_team.n;
  task.n_rows = task.n_sources = batch.n, task.n_new = batch.width;
  task.tokens = batch.tokens.data(), task.past = nothing.data();
  task.row_source = numbers.data(), task.source_lengths = batch.lengths.data();
  task.features = encoded.reserve(n_tokens * encoder.dim);
  run(task, encoder_scratch);
  return task.features;
}

void Decoder::keep_sources(int64_t member, const SourceBatch &batch, const float *states,
                           const std::vector<int64_t> &slots) {
  const Linear &cross = model(member).cross;
  KeyValueCache &sources = members[member].sources;
  // Tokens side by side, without padding.
  struct Piece {
    int64_t sentence, first, n;
  };
  std::vector<Piece> pieces;
  int64_t n = 0;
  const auto compute = [&] {
    if (!n) return;
    Product product = {};
    product.linear = cross;
    product.threads = own_team.threads, product.n_threads = own_team.n;
    product.n = n, product.x = gathered.data();
    product.y = keys_values.reserve(n * cross.outputs);
    run(product, members[member].scratch);
    const float *from = product.y;
    for (const Piece &piece : pieces) {
      sources.write(slots[piece.sentence], piece.first, from, piece.n);
      from += piece.n * cross.outputs;
    }
    pieces.clear();
    n = 0;
  };
  gathered.reserve(SOURCE_TOKENS * cross.inputs);
  for (int64_t sentence = 0; sentence < batch.n; ++sentence)
    for (int64_t first = 0; first < batch.lengths[sentence];) {
      const int64_t n_own = std::min(batch.lengths[sentence] - first, SOURCE_TOKENS - n);
      const float *from = states + (sentence * batch.width + first) * cross.inputs;
      std::copy_n(from, n_own * cross.inputs, gathered.data() + n * cross.inputs);
      pieces.push_back({sentence, first, n_own});
      n += n_own, first += n_own;
      if (n == SOURCE_TOKENS) compute();
    }
  compute();
}

void Decoder::step(const int64_t *tokens, int64_t n_new, const int64_t *parents) {
  const int64_t n = n_rows();
  const int64_t longest = *std::max_element(past.begin(), past.end()) + n_new;
  for (int64_t number = 0; number < n_models(); ++number) {
    Member &member = members[number];
    member.rows.reserve(n, std::max(longest, FIRST_LENGTH), past);
    Step &task = member.step;
    task.threads = own_team.threads, task.n_threads = own_team.n;
    task.rows = member.rows.cache;
    task.n_rows = n, task.n_new = n_new, task.past = past.data();
    task.tokens = tokens, task.parents = parents;
    attend_to_sources(number, task);
    task.features = member.features.reserve(n * n_new * task.model.dim);
    run(task, member.scratch);
  }
}

void Decoder::attend_to_sources(int64_t member, Step &task) {
  task.sources = members[member].sources.cache;
  task.n_sources = int64_t(source_lengths.size());
  task.row_source = row_source.data(), task.source_lengths = source_lengths.data();
  task.past = past.data(), task.n_rows = n_rows();
}

void Decoder::keep(int64_t row, int64_t n, const int64_t *path) {
  if (path)
    for (Member &member : members) member.rows.keep_path(row, past[row], path, n);
  past[row] += n;
}

void Decoder::remove(int64_t row) {
  const int64_t last = n_rows() - 1;
  source_lengths[row_source[row]] = 0;
  if (row != last) {
    for (Member &member : members) member.rows.copy(last, row, past[last]);
    past[row] = past[last];
    row_source[row] = row_source[last];
  }
  past.pop_back();
  row_source.pop_back();
}

}  // namespace fastdec
