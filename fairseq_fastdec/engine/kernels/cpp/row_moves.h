// Copies the rows of a cache to other slots.

#pragma once

#include <cstring>

#include "assertions.h"
#include "threads.h"

namespace fastdec {
namespace {

// One thread copies fewer bytes than this: starting a second one would take longer.
constexpr int64_t FEW_BYTES = 200'000;

INLINE bool is_moved(const Move &move, int64_t place) { return move.origins[place] != place; }

INLINE int64_t n_moved(const Move &move) {
  int64_t n = 0;
  for (int64_t place = 0; place < move.n; ++place) n += is_moved(move, place);
  return n;
}

INLINE void copy_rows(const Move &move, int64_t part) {
  char *data = move.data + part * move.part;
  for (int64_t place = 0; place < move.n; ++place) {
    if (!is_moved(move, place)) continue;
    const char *from = data + move.origins[place] * move.slot;
    char *to = data + place * move.slot;
    for (int64_t head = 0; head < move.n_heads; ++head)
      std::memcpy(to + head * move.head, from + head * move.head, move.used);
  }
}

void move_rows(const Move &move, const ThreadSlice &slice) {
  for (int64_t part = slice.number; part < move.n_parts; part += slice.count)
    copy_rows(move, part);
}

}  // namespace
}  // namespace fastdec
