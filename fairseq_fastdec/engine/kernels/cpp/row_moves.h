// Rows of a cache change their places.

#pragma once

#include <cstring>

#include "threads.h"

namespace {

// All moved rows of a part are read before the first is written.
void move_rows(const Move &move, const ThreadSlice &slice) {
  char *scratch = move.scratch + slice.number * move.n * move.n_heads * move.used;
  for (int64_t part = slice.number; part < move.n_parts; part += slice.count) {
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
