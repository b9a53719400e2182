// Blocks of tokens: what is fed, how much of it is accepted, and what the rows keep
// (Stern et al. 2018, sections 3 and 4).

#pragma once

#include <algorithm>

#include "row_ends.h"

namespace fastdec {
namespace {

// Each block begins with its row's next token; the proposals follow.
void lead(const Blocks &task) {
  const int64_t n_new = task.rows.n_new;
  for (int64_t row = 0; row < task.rows.n_rows; ++row) {
    int64_t *block = task.tokens + row * n_new;
    block[0] = task.next_tokens[row];
    std::copy_n(task.proposals + row * (n_new - 1), n_new - 1, block + 1);
  }
}

// The longest beginning of a chain whose proposals are all good enough.
INLINE int64_t accept_chain(const Blocks &task, int64_t row) {
  const int64_t n_new = task.rows.n_new, at = row * n_new;
  int64_t n = 1;
  if (task.verdict)
    while (n < n_new && task.verdict[row * (n_new - 1) + n - 1]) ++n;
  else
    while (n < n_new && task.tokens[at + n] == task.answers[at + n - 1]) ++n;
  return n;
}

// The longest path of a tree on which each token is the best after the one before.
INLINE int64_t accept_path(const Blocks &task, int64_t row) {
  const int64_t n_new = task.rows.n_new, at = row * n_new;
  int64_t *path = task.path + at;
  std::fill_n(path, n_new, 0);
  int64_t n = 1, last = 0;
  // Siblings differ, so there is one at most; and what follows it has a larger index.
  for (int64_t i = 1; i < n_new; ++i)
    if (task.parents[at + i] == last && task.tokens[at + i] == task.answers[at + last])
      path[n++] = last = i;
  return n;
}

void accept(const Blocks &task) {
  for (int64_t row = 0; row < task.rows.n_rows; ++row)
    task.accepted[row] = task.parents ? accept_path(task, row) : accept_chain(task, row);
}

INLINE int64_t place_of(const Blocks &task, int64_t row, int64_t number) {
  const int64_t at = row * task.rows.n_new;
  return at + (task.parents ? task.path[at + number] : number);
}

// The token after the block's last accepted one is certain now.
INLINE void go_on_from(const Blocks &task, int64_t row, int64_t place) {
  task.next_tokens[row] = task.answers[place];
  task.next_scores[row] = task.answer_scores[place];
  std::copy_n(task.features + place * task.dim, task.dim, task.states + row * task.dim);
}

// p_1's score of a row's accepted token.
INLINE float score_of(const Blocks &task, int64_t row, int64_t number) {
  if (number == 0) return task.next_scores[row];
  if (task.own_scores) return task.own_scores[row * (task.rows.n_new - 1) + number - 1];
  return task.answer_scores[place_of(task, row, number - 1)];
}

// What is kept of a row's block: its accepted tokens that the row lacks, with p_1's scores.
INLINE void collect(const Blocks &task, int64_t row) {
  const int64_t n = task.kept_counts[row] = task.accepted[row] - task.n_known;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t number = i + task.n_known, to = row * task.rows.n_new + i;
    task.kept_tokens[to] = task.tokens[place_of(task, row, number)];
    task.kept_scores[to] = score_of(task, row, number);
  }
}

// The answers to a chain's rejected tokens: guesses at what follows the next token.
INLINE void collect_rest(const Blocks &task, int64_t row) {
  const int64_t n_new = task.rows.n_new, first = task.accepted[row];
  const int64_t n = task.n_rest[row] = task.parents ? 0 : n_new - first;
  int64_t *const rest = task.rest + row * task.rest_width;
  std::copy_n(task.answers + row * n_new + first, n, rest);
  std::fill(rest + n, rest + task.rest_width, task.pad);
}

// The rows take what was accepted; returns how many have ended in their block.
int64_t keep(const Blocks &task) {
  for (int64_t row = 0; row < task.rows.n_rows; ++row) {
    collect(task, row);
    collect_rest(task, row);
    go_on_from(task, row, place_of(task, row, task.accepted[row] - 1));
  }
  return append(task.rows);
}

// Rows whose next token is an end of sentence take that one token, and have ended. Returns how many
// rows have ended, now or before.
int64_t end_rows(const Blocks &task) {
  Append rows = task.rows;
  rows.counts = rows.taken = task.ended;
  for (int64_t row = 0; row < rows.n_rows; ++row)
    task.ended[row] = !rows.finished[row] && task.next_tokens[row] == rows.eos;
  rows.n_new = 1;
  rows.new_tokens = task.next_tokens, rows.new_scores = task.next_scores;
  append(rows);
  return std::count(rows.finished, rows.finished + rows.n_rows, 1);
}

}  // namespace
}  // namespace fastdec
