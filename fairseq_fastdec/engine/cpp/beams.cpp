#include "beams.h"

#include "kernels.h"

namespace fastdec {

namespace {

// The initial capacity in tokens; few translations are longer.
constexpr int64_t FIRST_LENGTHS = 64;

// Resizes memory, and updates the table's pointer to it.
template <typename T>
void place(std::vector<T> &memory, int64_t n, T *&pointer) {
  memory.resize(n);
  pointer = memory.data();
}

// Increases the memory of each slot from old_size to size.
template <typename T>
void lengthen(std::vector<T> &memory, int64_t n_slots, int64_t old_size, int64_t size,
              T *&pointer) {
  std::vector<T> longer(n_slots * size);
  for (int64_t slot = 0; slot < n_slots; ++slot)
    std::copy_n(memory.begin() + slot * old_size, old_size, longer.begin() + slot * size);
  memory.swap(longer);
  pointer = memory.data();
}

}  // namespace

Beams::Beams(const BeamOptions &options, int64_t eos) {
  table.width = options.width, table.eos = eos;
  table.lets_wait = options.lets_wait, table.threshold = options.threshold;
  table.n_lengths = FIRST_LENGTHS;
  reserve_beams(1);
}

int64_t Beams::begin(int64_t bos) {
  if (free_slots.empty()) reserve_slots(table.n_slots + 1);
  const int64_t slot = free_slots.back();
  free_slots.pop_back();
  table.widths[slot] = 1;
  table.lengths[slot] = table.steps[slot] = table.expansions[slot] = 0;
  table.n_final[slot] = table.n_waiting[slot] = 0;
  table.best_final[slot] = -INFINITY;
  table.tokens[entry(slot, 0, 0)] = int32_t(bos);
  table.scores[entry(slot, 0, 0)] = 0;
  return slot;
}

void Beams::reserve_slots(int64_t n_needed) {
  const int64_t n_old = table.n_slots, n = std::max(n_needed, 2 * n_old);
  table.n_slots = n;
  place(lengths, n, table.lengths), place(widths, n, table.widths);
  place(all_steps, n, table.steps), place(all_expansions, n, table.expansions);
  place(n_final, n, table.n_final), place(n_waiting_of, n, table.n_waiting);
  place(best_final, n, table.best_final);
  const int64_t n_ends = n * table.width, n_entries = n_ends * table.n_lengths;
  place(final_scores, n_ends, table.final_scores);
  place(final_lengths, n_ends, table.final_lengths);
  place(final_columns, n_ends, table.final_columns);
  place(waiting_scores, n_ends, table.waiting_scores);
  place(waiting_lengths, n_ends, table.waiting_lengths);
  place(waiting_columns, n_ends, table.waiting_columns);
  place(tokens, n_entries, table.tokens), place(parents, n_entries, table.parents);
  place(scores, n_entries, table.scores);
  for (int64_t slot = n - 1; slot >= n_old; --slot) free_slots.push_back(slot);
}

void Beams::reserve_lengths(int64_t n_needed) {
  if (n_needed <= table.n_lengths) return;
  const int64_t n = std::max(n_needed, 2 * table.n_lengths), width = table.width;
  const int64_t old_size = table.n_lengths * width;
  table.n_lengths = n;
  lengthen(tokens, table.n_slots, old_size, n * width, table.tokens);
  lengthen(parents, table.n_slots, old_size, n * width, table.parents);
  lengthen(scores, table.n_slots, old_size, n * width, table.scores);
}

void Beams::reserve_beams(int64_t n_needed) {
  if (n_needed <= table.most_beams) return;
  const int64_t n = std::max(n_needed, 2 * table.most_beams), n_rows = n * table.width;
  table.most_beams = n;
  place(in_focus, n, table.focus), place(starts, n + 1, table.starts);
  place(row_slots, n_rows, table.row_slots), place(columns, n_rows, table.columns);
  place(fed_tokens, n_rows, table.next_tokens), place(totals, n_rows, table.totals);
  place(row_numbers, n_rows, table.rows), place(row_origins, n_rows, table.origins);
  place(child_scores, n_rows, table.child_scores), place(child_tokens, n_rows, table.child_tokens);
  place(child_columns, n_rows, table.child_columns), place(child_rows, n_rows, table.child_rows);
  place(done, n, table.done);
}

void Beams::focus(const std::vector<int64_t> &slots) {
  reserve_beams(int64_t(slots.size()));
  table.n_beams = int64_t(slots.size()), table.n_rows = 0;
  int64_t longest = 0;
  for (int64_t beam = 0; beam < table.n_beams; ++beam) {
    const int64_t slot = table.focus[beam] = slots[beam];
    table.starts[beam] = table.n_rows;
    longest = std::max(longest, length(slot));
    for (int64_t column = 0; column < width(slot); ++column) {
      const int64_t row = table.n_rows++, own = entry(slot, length(slot), column);
      table.row_slots[row] = slot, table.columns[row] = column, table.rows[row] = row;
      table.next_tokens[row] = table.tokens[own], table.totals[row] = table.scores[own];
    }
  }
  table.starts[table.n_beams] = table.n_rows;
  // Children are one token longer.
  reserve_lengths(longest + 2);
}

std::vector<int64_t> Beams::context(int64_t row) const {
  const int64_t slot = table.row_slots[row];
  std::vector<int64_t> all(length(slot) + 1);
  int64_t column = table.columns[row];
  for (int64_t at = length(slot); at >= 0; --at) {
    all[at] = table.tokens[entry(slot, at, column)];
    column = table.parents[entry(slot, at, column)];
  }
  return all;
}

void Beams::judge(const Extensions &candidates) {
  table.n_candidates = candidates.n;
  table.candidate_scores = candidates.totals.data();
  table.candidate_tokens = candidates.tokens.data();
  table.candidate_rows = candidates.rows.data();
  judge_beams(table, scratch);
}

void Beams::extend(const std::vector<int64_t> &places, std::vector<int64_t> &origins) {
  table.order = places.data(), table.n_kept = int64_t(places.size());
  extend_beams(table);
  for (int64_t child = 0; child < table.n_rows; ++child)
    origins.push_back(table.origins[table.rows[child]]);
}

std::vector<Hypothesis> Beams::hypotheses(int64_t slot) {
  const int64_t first = slot * table.width;
  if (!table.n_final[slot]) {
    table.n_final[slot] = 1;
    table.final_scores[first] = -INFINITY;
    table.final_lengths[first] = length(slot), table.final_columns[first] = 0;
  }
  std::vector<Hypothesis> found(table.n_final[slot]);
  for (int64_t number = 0; number < table.n_final[slot]; ++number) {
    Hypothesis &own = found[number];
    own.total = table.final_scores[first + number];
    Trace task = {};
    task.n_slots = table.n_slots, task.n_lengths = table.n_lengths, task.width = table.width;
    task.history_tokens = table.tokens, task.history_parents = table.parents;
    task.history_scores = table.scores;
    task.eos = table.eos;
    task.n = 1, task.n_tokens = table.final_lengths[first + number] + 1;
    task.slots = &slot, task.lengths = table.final_lengths + first + number;
    task.columns = table.final_columns + first + number, task.totals = &own.total;
    own.tokens.resize(task.n_tokens), own.scores.resize(task.n_tokens);
    task.tokens = own.tokens.data(), task.scores = own.scores.data();
    run(task);
  }
  return found;
}

}  // namespace fastdec
