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

// A path never goes back, so no token is overwritten before it has moved.
void move_paths(const PathMove &move) {
  for (int64_t part = 0; part < move.n_parts; ++part) {
    for (int64_t row = 0; row < move.n_rows; ++row) {
      const int64_t *path = move.path + row * move.n_path;
      for (int64_t head = 0; head < move.n_heads; ++head) {
        char *end = move.data + part * move.part + (move.first_slot + row) * move.slot +
                    head * move.head + move.starts[row] * move.token;
        for (int64_t i = 0; i < move.n_path; ++i)
          if (path[i] > i) std::memmove(end + i * move.token, end + path[i] * move.token, move.token);
      }
    }
  }
}

}  // namespace
