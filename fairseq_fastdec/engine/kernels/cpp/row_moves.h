// Copies the rows of a cache to other slots.

#pragma once

#include <cstring>

#include "assertions.h"
#include "threads.h"

namespace fastdec {
namespace {

INLINE bool is_moved(const Move &move, int64_t place) { return move.origins[place] != place; }

INLINE int64_t n_moved(const Move &move) {
  int64_t n = 0;
  for (int64_t place = 0; place < move.n; ++place) n += is_moved(move, place);
  return n;
}

// Whether a row that is overwritten is the origin of another one. Rows of beams never are, since
// the first child of a row takes over its place.
INLINE bool has_to_read_first(const Move &move) {
  for (int64_t place = 0; place < move.n; ++place) {
    const int64_t origin = move.origins[place];
    if (origin != place && origin < move.n && is_moved(move, origin)) return true;
  }
  return false;
}

// The bytes of scratch memory for all threads.
int64_t scratch_size_of(const Move &move) {
  return has_to_read_first(move) ? move.n_threads * n_moved(move) * move.n_heads * move.used : 0;
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

// Like copy_rows, but all rows are read before the first is written.
INLINE void copy_rows_at_once(const Move &move, int64_t part, char *scratch) {
  char *data = move.data + part * move.part, *to = scratch;
  for (int64_t place = 0; place < move.n; ++place)
    for (int64_t head = 0; is_moved(move, place) && head < move.n_heads; ++head, to += move.used)
      std::memcpy(to, data + move.origins[place] * move.slot + head * move.head, move.used);
  const char *from = scratch;
  for (int64_t place = 0; place < move.n; ++place)
    for (int64_t head = 0; is_moved(move, place) && head < move.n_heads; ++head, from += move.used)
      std::memcpy(data + place * move.slot + head * move.head, from, move.used);
}

void move_rows(const Move &move, const ThreadSlice &slice) {
  const bool reads_first = has_to_read_first(move);
  char *scratch = move.scratch + slice.number * (scratch_size_of(move) / move.n_threads);
  for (int64_t part = slice.number; part < move.n_parts; part += slice.count) {
    if (reads_first)
      copy_rows_at_once(move, part, scratch);
    else
      copy_rows(move, part);
  }
}

// Paths are ascending, so no token is overwritten before it is moved.
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
}  // namespace fastdec
