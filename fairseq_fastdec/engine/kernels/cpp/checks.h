// Checks that a task stays within the memory that it names, as far as sizes and numbers tell. One
// comparison for each number costs nothing beside what is done with it.

#pragma once

#include "linear_blocks.h"
#include "processor.h"
#include "structures.h"

namespace fastdec {
namespace {

// Why a task was refused. A refused task has done nothing.
enum Problem : int64_t { NONE, TOKENS, TREE, SIZES, LENGTHS, PLACES, SCRATCH };

INLINE bool is_within(int64_t number, int64_t end) { return number >= 0 && number < end; }

template <typename Task>
INLINE bool has_threads(const Task &task) {
  return task.n_threads == 1 || (task.n_threads > 1 && task.threads);
}

INLINE bool is_linear(const Linear &linear, int64_t inputs, int64_t outputs) {
  return linear.format && linear.weight && linear.bias && inputs > 0 &&
         outputs > 0 && linear.inputs == inputs && linear.outputs == outputs;
}

INLINE bool is_activation(int64_t number) {
  const int64_t last = static_cast<int64_t>(Epilogue::TANH);
  return is_within(number, last + 1) && number != static_cast<int64_t>(Epilogue::ADD);
}

bool is_model(const Model &model) {
  const int64_t dim = model.dim, hidden = model.hidden;
  if (model.n_heads < 1 || model.head_dim < 1 || model.tokens_per_step < 0) return false;
  if (model.n_heads * model.head_dim != dim) return false;
  if (model.n_positions && !model.positions) return false;
  if (!is_activation(model.activation)) return false;
  for (int64_t index = 0; index < model.n_layers; ++index) {
    const Layer &layer = model.layers[index];
    const bool itself = is_linear(layer.self_qkv, dim, 3 * dim) &&
                        is_linear(layer.self_out, dim, dim) && is_linear(layer.fc1, dim, hidden) &&
                        is_linear(layer.fc2, hidden, dim);
    const bool crosses =
        is_linear(layer.cross_query, dim, dim) && is_linear(layer.cross_out, dim, dim);
    if (!itself || (layer.cross_query.outputs && !crosses)) return false;
  }
  return true;
}

INLINE bool is_cache(const Cache &cache, const Model &model) {
  return cache.slots >= 0 && cache.length >= 0 && cache.head == cache.length * model.head_dim &&
         cache.slot == cache.head * model.n_heads;
}

bool are_trees(const Step &step) {
  for (int64_t row = 0; row < step.n_rows; ++row) {
    const int64_t *parents = step.parents + row * step.n_new;
    for (int64_t token = 0; token < step.n_new; ++token) {
      int64_t depth = 0;
      for (int64_t at = token; at >= 0; at = parents[at])
        if (parents[at] < -1 || parents[at] >= at || ++depth > MAX_TREE_DEPTH) return false;
    }
  }
  return true;
}

INLINE int64_t slot_of(const Step &step, int64_t row) {
  return step.row_slots ? step.row_slots[row] : step.first_slot + row;
}

Problem problem_of(const Step &step) {
  const Model &model = step.model;
  if (!is_model(model) || !has_threads(step) || step.n_rows < 0 || step.n_new < 0) return SIZES;
  // An encoder's rows are their own sources.
  const Cache &sources = model.tokens_per_step ? step.sources : step.rows;
  if (!is_cache(step.rows, model) || !is_cache(sources, model)) return SIZES;
  if (model.tokens_per_step && step.n_new % model.tokens_per_step) return SIZES;
  if (step.n_sources > sources.slots) return PLACES;
  for (int64_t row = 0; row < step.n_rows; ++row) {
    if (!is_within(slot_of(step, row), step.rows.slots)) return PLACES;
    if (!is_within(step.row_source[row], step.n_sources)) return PLACES;
    if (!is_within(step.past[row], step.rows.length - step.n_new + 1)) return LENGTHS;
    if (!is_within(step.source_lengths[step.row_source[row]], sources.length + 1)) return LENGTHS;
  }
  for (int64_t at = 0; at < step.n_rows * step.n_new; ++at)
    if (!is_within(step.tokens[at], model.n_types)) return TOKENS;
  return step.parents && !are_trees(step) ? TREE : NONE;
}

Problem problem_of(const Product &product) {
  const Linear &linear = product.linear;
  const bool fits = product.n >= 0 && is_linear(linear, linear.inputs, linear.outputs);
  return fits && has_threads(product) ? NONE : SIZES;
}

Problem problem_of(const BestToken &task) {
  const Linear &linear = task.linear;
  if (task.n < 0 || !is_linear(linear, linear.inputs, linear.outputs)) return SIZES;
  if (task.n_never < 0 || !has_threads(task) || task.n_threads < 1) return SIZES;
  if (task.n_forbidden < 0 || (task.n_forbidden && !task.forbidden)) return SIZES;
  if (!is_within(task.eos, linear.outputs) || task.penalized >= linear.outputs) return TOKENS;
  return NONE;
}

Problem problem_of(const Heads &task) {
  const Linear &hidden = task.hidden;
  if (task.n < 0 || task.n_heads < 1 || task.n_outputs < 1 || !has_threads(task)) return SIZES;
  if (!is_linear(hidden, hidden.inputs, hidden.outputs)) return SIZES;
  const bool is_shared = task.n_outputs == 1;
  if (!is_shared && task.n_outputs != task.n_heads) return SIZES;
  const int64_t outputs = hidden.inputs * (is_shared ? task.n_heads : 1);
  for (int64_t output = 0; output < task.n_outputs; ++output)
    if (!is_linear(task.outputs[output], hidden.outputs / task.n_outputs, outputs)) return SIZES;
  return NONE;
}

// The number of inputs that the output layer behind sequential heads has.
INLINE int64_t n_draft_outputs(const Draft &draft) {
  return draft.narrow.outputs ? draft.narrow.outputs : draft.step.model.dim;
}

// Of sequential heads, whose states have the size of a source's key.
Problem problem_of(const Draft &draft) {
  const Step &step = draft.step;
  const Model &model = step.model;
  const int64_t dim = model.dim, widest = model.hidden, hidden = draft.fc1.outputs;
  if (model.n_heads < 1 || model.head_dim < 1 || model.n_heads * model.head_dim != dim) return SIZES;
  if (!has_threads(step) || step.n_rows < 0 || step.n_new < 0 || !model.embed) return SIZES;
  if (!is_activation(model.activation) || draft.token.inputs <= dim) return SIZES;
  if (widest < hidden || widest < draft.token.inputs) return SIZES;
  const bool fits = is_linear(draft.begin, dim, dim) &&
                    is_linear(draft.token, draft.token.inputs, dim) &&
                    is_linear(draft.query, dim, dim) && is_linear(draft.source, dim, dim) &&
                    is_linear(draft.fc1, dim, hidden) && is_linear(draft.fc2, hidden, dim);
  const int64_t rank = draft.narrow.outputs;
  if (rank && (rank > dim || !is_linear(draft.narrow, dim, rank))) return SIZES;
  if (!fits || !is_cache(step.sources, model)) return SIZES;
  if (draft.layer < 0 || step.n_sources > step.sources.slots) return PLACES;
  for (int64_t row = 0; row < step.n_rows; ++row) {
    if (!is_within(step.row_source[row], step.n_sources)) return PLACES;
    if (!is_within(step.past[row], INT32_MAX)) return LENGTHS;
    if (!is_within(step.source_lengths[step.row_source[row]], step.sources.length + 1))
      return LENGTHS;
  }
  for (int64_t at = 0; at < step.n_rows * step.n_new; ++at)
    if (!is_within(step.tokens[at], model.n_types)) return TOKENS;
  return NONE;
}

Problem problem_of(const DraftChains &task) {
  if (!task.draft || !task.best || task.n_steps < 0 || task.draft->step.n_new != 1) return SIZES;
  if (!task.path_scores) return SIZES;
  const Linear &linear = task.best->linear;
  if (task.best->n != task.draft->step.n_rows) return SIZES;
  return linear.inputs == n_draft_outputs(*task.draft) ? NONE : SIZES;
}

Problem problem_of(const DraftTrees &task) {
  if (!task.draft || !task.product || !task.best || task.n_members < 1) return SIZES;
  const int64_t n_types = task.best->n_types, n_best = task.best->n_best;
  if (task.n_levels < 1 || task.n_proposals < 1 || task.width < 1) return SIZES;
  if (n_best > task.n_proposals || n_best > n_types) return SIZES;
  for (int64_t member = 0; member < task.n_members; ++member) {
    const Draft &draft = task.draft[member];
    const Linear &linear = task.product[member].linear;
    const int64_t n_embedded = draft.step.model.n_types;
    if (draft.step.n_rows != task.draft->step.n_rows) return SIZES;
    if (linear.inputs != n_draft_outputs(draft) || linear.outputs != n_types) return SIZES;
    if (n_types > n_embedded) return SIZES;
    if (!is_within(task.pad, n_embedded)) return TOKENS;
  }
  return NONE;
}

// Whether each beam has rows of its own, and all rows are in beams.
INLINE bool are_beams(const TopK &task) {
  const int64_t *starts = task.starts;
  if (!starts || !task.totals || starts[0] != 0) return false;
  for (int64_t beam = 0; beam < task.n_beams; ++beam)
    if (starts[beam + 1] < starts[beam]) return false;
  if (starts[task.n_beams] != task.n_rows) return false;
  for (int64_t at = 0; at < task.n_rows; ++at)
    if (!is_within(task.rows[at], task.n_rows)) return false;
  return true;
}

Problem problem_of(const TopK &task) {
  const int64_t n_types = task.n_types;
  if (task.n_rows < 0 || task.n_best < 1 || task.n_beams < 0) return SIZES;
  if (task.n_per_row < 1 || task.n_members < 1 || !task.scores) return SIZES;
  if (task.n_parts < 1 || (task.n_beams && !task.scratch)) return SIZES;
  if (task.rows) {
    if (!are_beams(task)) return PLACES;
  } else if (task.n_best > n_types || task.n_beams != task.n_rows) {
    return SIZES;
  }
  if (task.n_never < 0 || !has_threads(task)) return SIZES;
  if (task.n_forbidden < 0 || (task.n_forbidden && !task.forbidden)) return SIZES;
  if (task.penalized >= n_types) return TOKENS;
  if (task.has_to_end && !is_within(task.eos, n_types)) return TOKENS;
  for (int64_t row = 0; task.only && row < task.n_rows; ++row)
    if (!is_within(task.only[row] + 1, n_types + 1)) return TOKENS;
  return NONE;
}

Problem problem_of(const Trees &task) {
  const bool is_empty = task.n_heads == 0;
  if (task.n_rows < 0 || task.n_heads < 0 || task.n_proposals < 0) return SIZES;
  return is_empty || task.n_best > 0 ? NONE : SIZES;
}

Problem problem_of(const Move &move) {
  if (move.n < 0 || move.used < 0 || move.used > move.head || !has_threads(move)) return SIZES;
  if (move.n > move.n_slots) return PLACES;
  for (int64_t i = 0; i < move.n; ++i)
    if (!is_within(move.origins[i], move.n_slots)) return PLACES;
  return NONE;
}

Problem problem_of(const PathMove &move) {
  if (move.n_rows < 0 || move.n_path < 0) return SIZES;
  if (move.first_slot < 0 || move.first_slot + move.n_rows > move.n_slots) return PLACES;
  for (int64_t row = 0; row < move.n_rows; ++row) {
    const int64_t start = move.starts[row];
    if (!is_within(start, move.length + 1)) return LENGTHS;
    for (int64_t i = 0; i < move.n_path; ++i)
      if (!is_within(move.path[row * move.n_path + i], move.length - start)) return LENGTHS;
  }
  return NONE;
}

}  // namespace
}  // namespace fastdec
