// Rows of a cache that change their places.

#pragma once

#include "linear_fp32.h"

namespace {

struct Move {
  const Threads *threads;
  int64_t n_threads;
  char *data;
  int64_t n_parts, n_slots, n_heads;  // keys and values of each layer are a part
  int64_t part, slot, head;           // strides, in bytes
  int64_t used;                       // of each head, in bytes
  const int64_t *origins, *places;    // [n]
  int64_t n;
  char *scratch;  // [n_threads, n, n_heads, used]
};

// A part at a time, all of whose rows are read before the first is written.
void move(const Move &move, const Share &share) {
  char *scratch = move.scratch + share.number * move.n * move.n_heads * move.used;
  for (int64_t part = share.number; part < move.n_parts; part += share.count) {
    char *data = move.data + part * move.part, *to = scratch;
    for (int64_t i = 0; i < move.n; ++i)
      for (int64_t head = 0; head < move.n_heads; ++head, to += move.used)
        std::memcpy(to, data + move.origins[i] * move.slot + head * move.head, move.used);
    const char *from = scratch;
    for (int64_t i = 0; i < move.n; ++i)
      for (int64_t head = 0; head < move.n_heads; ++head, from += move.used)
        std::memcpy(data + move.places[i] * move.slot + head * move.head, from, move.used);
  }
}

}  // namespace
