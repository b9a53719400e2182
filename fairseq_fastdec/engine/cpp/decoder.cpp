#include "decoder.h"

#include <cassert>
#include <cstring>
#include <numeric>

#include "../kernels/cpp/keys_values.h"

namespace fastdec {

namespace {

// The number of source tokens whose keys and values are computed together.
constexpr int64_t SOURCE_TOKENS = 128;
// The initial capacity of rows in tokens.
constexpr int64_t FIRST_LENGTH = 32;

}  // namespace

KeyValueCache::KeyValueCache(int64_t n_layers, int64_t of_layer, int64_t n_heads, int64_t head_dim,
                             bool is_bf16)
    : n_layers(n_layers), of_layer(of_layer), n_heads(n_heads), head_dim(head_dim) {
  cache.is_bf16 = is_bf16;
}

KeyValueCache::KeyValueCache(const Network &network, bool is_bf16)
    : KeyValueCache(network.n_layers, 2, network.n_heads, network.head_dim, is_bf16) {}

KeyValueCache KeyValueCache::of_rows(const Network &network, bool is_bf16) {
  if (!network.is_recurrent()) return KeyValueCache(network, is_bf16);
  // In fp32: each state is computed from the one before, so rounding errors would add up.
  return KeyValueCache(network.n_layers, 1, 1, network.dim, false);
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
  cache.slots = n > cache.slots ? std::max(n, cache.slots + cache.slots / 2) : cache.slots;
  cache.length = length > cache.length ? std::max(length, 2 * cache.length) : cache.length;
  cache.head = cache.length * head_dim;
  cache.slot = cache.head * n_heads;
  cache.part = cache.slot * cache.slots;
  cache.layer = of_layer * cache.part;
  const int64_t n_bytes = n_parts() * cache.part * bytes_of_number();
  if (!is_empty) old_memory.swap(memory);
  cache.data = memory.reserve(n_bytes);
  // Resident from now on, so that the memory of a service does not depend on the slots in which long
  // sentences have been.
  if (n_bytes > 0) std::memset(cache.data, 0, size_t(n_bytes));
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

Decoder::Member::Member(const Model &model)
    : rows(KeyValueCache::of_rows(model.decoder, model.rounds_keys)), sources(model.decoder, model.rounds_keys), step() {
  step.network = model.decoder;
}

std::vector<int64_t> even_begins(int64_t n_rows, int64_t n_each) {
  std::vector<int64_t> begins;
  for (int64_t row = 0; row <= n_rows; ++row) begins.push_back(row * n_each);
  return begins;
}

Decoder::Decoder(Models given) : models(std::move(given)) {
  for (const auto &model : models) members.emplace_back(*model);
}

std::vector<int64_t> Decoder::free_sources(int64_t n) {
  std::vector<int64_t> slots;
  // All models have the same free slots.
  const std::vector<int64_t> &lengths = members[0].source_lengths;
  for (int64_t slot = 0; int64_t(slots.size()) < n; ++slot)
    if (slot >= int64_t(lengths.size()) || !lengths[slot]) slots.push_back(slot);
  for (Member &member : members)
    member.source_lengths.resize(std::max<size_t>(lengths.size(), slots.back() + 1), 0);
  dropped_slots.resize(lengths.size());
  return slots;
}

void Decoder::free_source(int64_t slot) {
  for (Member &member : members) member.source_lengths[slot] = 0;
  free_slots.insert(free_slots.end(), dropped_slots[slot].begin(), dropped_slots[slot].end());
  dropped_slots[slot].clear();
}

int64_t Decoder::free_slot(int64_t source) {
  std::vector<int64_t> &slots = dropped_slots[source].empty() ? free_slots : dropped_slots[source];
  if (slots.empty()) return n_slots++;
  const int64_t slot = slots.back();
  slots.pop_back();
  return slot;
}

void Decoder::add(const std::vector<const Request *> &sentences) {
  const std::vector<int64_t> slots = free_sources(int64_t(sentences.size()));
  for (int64_t member = 0; member < n_models(); ++member) {
    EncodedSources sources;
    if (sentences[0]->states.empty()) {
      sources = encode(model(member).encoder, sentences);
    } else {
      for (const Request *sentence : sentences) {
        const std::vector<float> &states = sentence->states[member];
        sources.states.push_back(states.data());
        sources.lengths.push_back(int64_t(states.size()) / model(member).cross.inputs);
      }
    }
    keep_sources(member, sources, slots);
  }
  // The sources of a language model are empty.
  if (has_language_model())
    keep_sources(n_models(), {{}, std::vector<int64_t>(slots.size(), 0)}, slots);
  for (int64_t slot : slots) {
    past.push_back(0);
    row_slots.push_back(free_slot(slot));
    row_source.push_back(slot);
    if (!token_slots.empty()) token_slots.emplace_back();
  }
}

EncodedSources Decoder::encode(const Network &encoder,
                               const std::vector<const Request *> &sentences) {
  EncodedSources sources;
  const int64_t n = int64_t(sentences.size());
  std::vector<int64_t> tokens, begins = {0}, nothing(n, 0), numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (const Request *sentence : sentences) {
    const std::vector<int64_t> &source = sentence->source;
    tokens.insert(tokens.end(), source.begin(), source.end());
    begins.push_back(int64_t(tokens.size()));
    sources.lengths.push_back(int64_t(source.size()));
  }
  Step task = {};
  task.network = encoder;
  // All layers use the same memory, since no layer needs that of another.
  Cache &cache = task.rows;
  cache.length = *std::max_element(sources.lengths.begin(), sources.lengths.end());
  cache.slots = n;
  cache.head = cache.length * encoder.head_dim;
  cache.slot = cache.head * encoder.n_heads;
  cache.part = cache.slot * cache.slots;
  cache.data = encoder_cache.reserve(2 * cache.part * int64_t(sizeof(float)));
  task.n_threads = own_threads;
  task.n_rows = task.n_sources = n, task.begins = begins.data();
  task.tokens = tokens.data(), task.past = nothing.data();
  task.row_source = numbers.data(), task.source_lengths = sources.lengths.data();
  task.features = encoded.reserve(begins.back() * encoder.dim);
  run(task, encoder_scratch);
  for (int64_t i = 0; i < n; ++i)
    sources.states.push_back(task.features + begins[i] * encoder.dim);
  return sources;
}

void Decoder::keep_sources(int64_t number, const EncodedSources &sources,
                           const std::vector<int64_t> &slots) {
  const Linear &cross = model(number).cross;
  Member &member = members[number];
  const int64_t longest = *std::max_element(sources.lengths.begin(), sources.lengths.end());
  member.sources.reserve(int64_t(member.source_lengths.size()), longest, member.source_lengths);
  // Consecutive tokens, without padding.
  struct Piece {
    int64_t sentence, first, n;
  };
  std::vector<Piece> pieces;
  int64_t n = 0;
  const auto compute = [&] {
    if (!n) return;
    Product product = {};
    product.linear = cross, product.n_threads = own_threads;
    product.n = n, product.x = gathered.data();
    product.y = keys_values.reserve(n * cross.outputs);
    run(product, member.scratch);
    const float *from = product.y;
    for (const Piece &piece : pieces) {
      member.sources.write(slots[piece.sentence], piece.first, from, piece.n);
      from += piece.n * cross.outputs;
    }
    pieces.clear();
    n = 0;
  };
  gathered.reserve(SOURCE_TOKENS * cross.inputs);
  for (int64_t sentence = 0; sentence < int64_t(slots.size()); ++sentence) {
    const int64_t length = sources.lengths[sentence];
    for (int64_t first = 0; first < length;) {
      const int64_t n_own = std::min(length - first, SOURCE_TOKENS - n);
      const float *from = sources.states[sentence] + first * cross.inputs;
      std::copy_n(from, n_own * cross.inputs, gathered.data() + n * cross.inputs);
      pieces.push_back({sentence, first, n_own});
      n += n_own, first += n_own;
      if (n == SOURCE_TOKENS) compute();
    }
    member.source_lengths[slots[sentence]] = length;
  }
  compute();
}

void Decoder::reserve_rows(int64_t length) {
  // The caches of all models have the same capacity.
  const Cache &cache = members[0].rows.cache;
  if (n_slots <= cache.slots && length <= cache.length) return;
  std::vector<int64_t> used(n_slots, 0);
  for (int64_t row = 0; row < n_rows(); ++row) {
    used[row_slots[row]] = past[row];
    for (int64_t slot : dropped_slots[row_source[row]]) used[slot] = past[row];
  }
  for (Member &member : members)
    member.rows.reserve(n_slots, std::max(length, FIRST_LENGTH), used);
}

void Decoder::step(const int64_t *tokens, const std::vector<int64_t> &begins, int64_t n_resting) {
  int64_t longest = 0;
  for (int64_t row = n_resting; row < n_rows(); ++row) {
    const int64_t number = row - n_resting;
    longest = std::max(longest, past[row] + begins[number + 1] - begins[number]);
  }
  reserve_rows(longest);
  const std::vector<const int32_t *> slots = token_slots_with(begins, n_resting);
  for (int64_t number = 0; number < int64_t(members.size()); ++number) {
    Member &member = members[number];
    Step &task = member.step;
    task.n_threads = own_threads, task.rows = member.rows.cache;
    set_rows(number, n_resting, task);
    task.row_slots = row_slots.data() + n_resting, task.token_slots = slots.empty() ? nullptr : slots.data();
    task.begins = begins.data(), task.tokens = tokens;
    task.features = member.features.reserve(task.n() * task.network.dim);
    task.attention = nullptr;
    if (records_attention && number < n_models()) {
      const std::vector<int64_t> &lengths = member.source_lengths;
      task.attention_width = *std::max_element(lengths.begin(), lengths.end());
      const int64_t of_token = task.network.aligned_heads * task.attention_width;
      task.attention = member.attention.reserve(task.n() * of_token);
    }
    run(task, member.scratch);
  }
}

std::vector<const int32_t *> Decoder::token_slots_with(const std::vector<int64_t> &begins,
                                                       int64_t n_resting) {
  std::vector<const int32_t *> of_rows;
  for (size_t row = n_resting; row < token_slots.size(); ++row) {
    const size_t number = row - n_resting;
    std::vector<int32_t> &slots = token_slots[row];
    slots.resize(past[row]);
    slots.resize(past[row] + begins[number + 1] - begins[number], int32_t(row_slots[row]));
    of_rows.push_back(slots.data());
  }
  return of_rows;
}

void Decoder::append_attention(int64_t row, int64_t token, std::vector<float> &to) const {
  const int64_t length = source_length(row);
  const size_t first = to.size();
  to.resize(first + length, 0);
  float *const own = to.data() + first;
  for (int64_t number = 0; number < n_models(); ++number) {
    const Step &step = members[number].step;
    const int64_t n_heads = step.network.aligned_heads;
    const float share = 1.0f / float(n_heads * n_models());
    const float *from = step.attention + token * n_heads * step.attention_width;
    for (int64_t head = 0; head < n_heads; ++head, from += step.attention_width)
      for (int64_t i = 0; i < length; ++i) own[i] += share * from[i];
  }
}

void Decoder::set_rows(int64_t member, int64_t n_resting, Step &task) {
  task.n_rows = n_rows() - n_resting;
  task.past = past.data() + n_resting, task.row_source = row_source.data() + n_resting;
  const std::vector<int64_t> &lengths = members[member].source_lengths;
  task.sources = members[member].sources.cache;
  task.n_sources = int64_t(lengths.size()), task.source_lengths = lengths.data();
}

void Decoder::remove(int64_t row) {
  const int64_t last = n_rows() - 1;
  dropped_slots[row_source[row]].push_back(row_slots[row]);
  free_source(row_source[row]);
  for (auto *own : {&past, &row_slots, &row_source}) {
    (*own)[row] = (*own)[last];
    own->pop_back();
  }
  if (token_slots.empty()) return;
  token_slots[row].swap(token_slots[last]);
  token_slots.pop_back();
}

void Decoder::gather(const std::vector<int64_t> &origins) {
  const std::vector<int64_t> old_past = past, old_slots = row_slots, old_source = row_source;
  const int64_t n = int64_t(origins.size()), n_old = n_rows();
  past.resize(n), row_slots.resize(n), row_source.resize(n);
  std::vector<uint8_t> has_row(members[0].source_lengths.size(), 0);
  std::vector<int64_t> heirs(n_old, -1), copies;
  for (int64_t row = 0; row < n; ++row) {
    const int64_t origin = origins[row];
    past[row] = old_past[origin], row_source[row] = old_source[origin];
    has_row[row_source[row]] = 1;
    row_slots[row] = old_slots[origin];
    // The first copy of a row, its heir, takes over its slot.
    if (heirs[origin] < 0)
      heirs[origin] = row;
    else
      copies.push_back(row);
  }
  for (int64_t row = 0; row < n_old; ++row)
    if (heirs[row] < 0) dropped_slots[old_source[row]].push_back(old_slots[row]);
  for (int64_t source : old_source)
    if (!has_row[source]) free_source(source);
  if (!copies.empty() && token_slots.empty())
    for (int64_t row = 0; row < n_old; ++row)
      token_slots.emplace_back(old_past[row], int32_t(old_slots[row]));
  if (!token_slots.empty()) {
    std::vector<std::vector<int32_t>> old;
    old.swap(token_slots);
    for (int64_t row = 0; row < n; ++row) {
      const int64_t origin = origins[row], heir = heirs[origin];
      token_slots.push_back(heir == row ? std::move(old[origin]) : token_slots[heir]);
    }
  }
  for (int64_t row : copies) row_slots[row] = free_slot(row_source[row]);
  for (int64_t row = 1; row < n; ++row)
    assert(row_source[row] != row_source[row - 1] || past[row] == past[row - 1]);
}

}  // namespace fastdec
