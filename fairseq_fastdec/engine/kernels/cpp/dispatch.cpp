// The entry points for Python, and the choice of kernels for the processor that this runs on.

#include "beams.h"
#include "best_token.h"
#include "blocks.h"
#include "costs.h"
#include "draft_chains.h"
#include "draft_trees.h"
#include "drafts.h"
#include "heads.h"
#include "multiply_adds.h"
#include "ngrams.h"
#include "pairs.h"
#include "repeats.h"
#include "row_moves.h"
#include "top_k.h"
#include "transformer.h"
#include "trees.h"
#include "verification.h"

#include <stdexcept>
#include <string>

#include "../../cpp/kernels.h"
#include "../../cpp/pool.h"

namespace fastdec {
namespace {

// These functions are compiled for each kind of processor. A step gets multiply_fp32 as a pointer:
// where GCC knows the function, it clones that for each of the step's calls, and no longer those of
// bf16 and int8, which become slower. Attention is a pointer, too: it is long, and compiled but once
// for all that attends.
struct Kernels {
  MultiplyFp32 multiply_fp32;
  Attend attend;
  void (*run_step)(MultiplyFp32 multiply_fp32, Attend attend, const Step &step,
                   const ThreadSlice &slice);
  void (*best_tokens)(MultiplyFp32 multiply_fp32, const BestToken &task,
                      const ThreadSlice &slice);
  void (*top_k)(const TopK &task, const ThreadSlice &slice);
  void (*run_draft)(MultiplyFp32 multiply_fp32, Attend attend, const Draft &draft,
                    const ThreadSlice &slice);
};

#define KERNELS_FOR(NAME, VEC, TARGET)                                                        \
  TARGET void multiply_fp32_##NAME(const Linear &linear, const float *x, float *y, int64_t n, \
                                   const ThreadSlice &slice, Epilogue epilogue) {             \
    multiply_fp32<VEC>(linear, x, y, n, slice, epilogue);                                     \
  }                                                                                           \
  TARGET void attend_##NAME(const Attention &task, const Workspace &own) {                    \
    attend_to_head<VEC>(task, own);                                                           \
  }                                                                                           \
  TARGET void run_step_##NAME(MultiplyFp32 multiply_fp32, Attend attend, const Step &step,    \
                              const ThreadSlice &slice) {                                     \
    run_step<VEC>(multiply_fp32, attend, step, slice);                                        \
  }                                                                                           \
  TARGET void best_tokens_##NAME(MultiplyFp32 multiply_fp32, const BestToken &task,           \
                                 const ThreadSlice &slice) {                                  \
    best_tokens<VEC>(multiply_fp32, task, slice);                                             \
  }                                                                                           \
  TARGET void top_k_##NAME(const TopK &task, const ThreadSlice &slice) {                      \
    top_k_of_parts<VEC>(task, slice);                                                         \
  }                                                                                           \
  TARGET void run_draft_##NAME(MultiplyFp32 multiply_fp32, Attend attend, const Draft &draft, \
                               const ThreadSlice &slice) {                                    \
    run_draft<VEC>(multiply_fp32, attend, draft, slice);                                      \
  }                                                                                           \
  constexpr Kernels NAME##_kernels = {multiply_fp32_##NAME, attend_##NAME,                    \
                                      run_step_##NAME,      best_tokens_##NAME,               \
                                      top_k_##NAME,         run_draft_##NAME};

KERNELS_FOR(any, Vec4, )
#if defined(__x86_64__)
KERNELS_FOR(avx2, Vec8, TARGET_AVX2)
KERNELS_FOR(avx512, Vec16, TARGET_AVX512)
#endif

// The kernels with the widest vectors that the processor has, of at most so many floats.
Kernels kernels_for(int64_t widest) {
  widest_vectors = widest;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_avx512()) return avx512_kernels;
  if (has_avx2()) return avx2_kernels;
#endif
  return any_kernels;
}

Kernels kernels = kernels_for(width<Vec16>());

void quantize_inputs(const Product &product, const ThreadSlice &slice) {
  const int64_t inputs = product.linear.inputs;
  for (int64_t token = slice.number; token < product.n; token += slice.count)
    quantize(product.linear, product.x + token * inputs, product.scratch, token, product.n);
}

void multiply(const Product &product, const ThreadSlice &slice) {
  const Linear &linear = product.linear;
  if (linear.weight)
    kernels.multiply_fp32(linear, product.x, product.y, product.n, slice, Epilogue::STORE);
  else
    multiply_quantized(linear, product.scratch, product.y, product.n, slice, Epilogue::STORE);
}

void run_step(const Step &step, const ThreadSlice &slice) {
  kernels.run_step(kernels.multiply_fp32, kernels.attend, step, slice);
}

void best_tokens(const BestToken &task, const ThreadSlice &slice) {
  kernels.best_tokens(kernels.multiply_fp32, task, slice);
}

void run_heads(const Heads &task, const ThreadSlice &slice) {
  run_heads(kernels.multiply_fp32, task, slice);
}

void top_k(const TopK &task, const ThreadSlice &slice) { kernels.top_k(task, slice); }

void run_draft(const Draft &draft, const ThreadSlice &slice) {
  kernels.run_draft(kernels.multiply_fp32, kernels.attend, draft, slice);
}

// Divides what a product gave by the temperature.
void divide_logits(const Product &product, float temperature) {
  if (temperature == 1) return;
  for (int64_t i = 0; i < product.n * product.linear.outputs; ++i) product.y[i] /= temperature;
}

// What is wrong with a choice of best tokens, or with its scratch memory.
Problem problem_of_choice(const BestToken &task) {
  if (const Problem problem = problem_of(task)) return problem;
  return best_token_scratch_size(task) > task.scratch_size ? SCRATCH : NONE;
}

// Takes a step of sequential heads.
Problem take_draft_step(Draft &draft) {
  if (const Problem problem = problem_of_step(draft)) return problem;
  count_multiply_adds(draft);
  draft.step.barrier.arrived = draft.step.barrier.phase = 0;
  in_threads<Draft, run_draft>(&draft, threads_for(draft));
  return NONE;
}

}  // namespace

extern "C" {

int64_t fastdec_block() { return BLOCK; }

int64_t fastdec_pair() { return PAIR; }

int64_t fastdec_group() { return GROUP; }

int64_t fastdec_has_bf16() { return 1; }

int64_t fastdec_has_int8() { return 1; }

// The size of a structure, by its place in structures.py's list of all; -1 behind the last.
int64_t fastdec_size_of(int64_t structure) {
  constexpr int64_t sizes[] = {
      sizeof(Linear),    sizeof(Norm),  sizeof(Layer),   sizeof(Model),     sizeof(Cache),
      sizeof(Costs),     sizeof(Threads), sizeof(Barrier), sizeof(Step),    sizeof(Product),
      sizeof(BestToken), sizeof(Heads), sizeof(TopK),    sizeof(Append),    sizeof(Blocks),
      sizeof(NgramTable), sizeof(Ngrams), sizeof(Trees), sizeof(HeadTrees), sizeof(BeamTable),
      sizeof(Trace),     sizeof(Repeats), sizeof(Move),  sizeof(PathMove), sizeof(Draft),
      sizeof(DraftChains), sizeof(DraftTrees), sizeof(Verification), sizeof(TokenPair),
      sizeof(DoubleTopK)};
  constexpr int64_t n = sizeof(sizes) / sizeof(sizes[0]);
  return is_within(structure, n) ? sizes[structure] : -1;
}

// The multiply-adds of all products and attention since the library was loaded.
int64_t fastdec_multiply_adds() { return n_multiply_adds(); }

// For tests: from now on computes in vectors of at most so many floats.
void fastdec_set_width(int64_t widest) { kernels = kernels_for(widest); }

// The floats of scratch memory that a product without fp32 weights needs.
int64_t fastdec_product_scratch_size(int64_t n, int64_t inputs) {
  return quantized_size(n, inputs);
}

// The floats of scratch memory that a step needs, or the negative of a Problem.
int64_t fastdec_step_scratch_size(const Step *step) {
  const Problem problem = problem_of(*step);
  return problem ? -problem : scratch_before(*step, step->n_threads);
}

// The floats of scratch memory that the best tokens need.
int64_t fastdec_best_token_scratch_size(const BestToken *task) {
  return best_token_scratch_size(*task);
}

// The floats of scratch memory that heads need.
int64_t fastdec_heads_scratch_size(const Heads *task) { return heads_scratch_size(*task); }

// The bytes of scratch memory that a choice needs.
int64_t fastdec_top_k_scratch_size(const TopK *task) { return top_k_scratch_size(*task); }

// The threads in which calls run.
Threads *fastdec_threads() { return pool_threads(); }

// Measures what threads cost, of which a call may have so many: 2 or more.
void fastdec_measure_costs(Threads *threads, int64_t n_threads) {
  threads->costs = measured_costs(threads, n_threads, multiply);
}

// The number of threads that a step runs in, or the negative of a Problem.
int64_t fastdec_step_threads(const Step *step) {
  const Problem problem = problem_of(*step);
  return problem ? -problem : threads_for(*step);
}

// The following do what they are asked for, or return a Problem.

int64_t fastdec_run_step(Step *step) {
  if (const Problem problem = problem_of(*step)) return problem;
  if (scratch_before(*step, step->n_threads) > step->scratch_size) return SCRATCH;
  count_multiply_adds(*step);
  step->barrier.arrived = step->barrier.phase = 0;
  in_threads<Step, run_step>(step, threads_for(*step));
  return NONE;
}

int64_t fastdec_multiply(Product *product) {
  if (const Problem problem = problem_of(*product)) return problem;
  count_multiply_adds(*product);
  const int64_t n_threads = threads_for(*product);
  // To start threads would take longer than to quantise so little.
  const bool together = quantizes_together(product->linear, product->n);
  if (!product->linear.weight)
    in_threads<Product, quantize_inputs>(product, together ? n_threads : 1);
  in_threads<Product, multiply>(product, n_threads);
  return NONE;
}

int64_t fastdec_best_tokens(BestToken *task) {
  if (const Problem problem = problem_of_choice(*task)) return problem;
  count_multiply_adds(*task);
  task->barrier.arrived = task->barrier.phase = 0;
  in_threads<BestToken, best_tokens>(task, threads_for(*task));
  return NONE;
}

int64_t fastdec_run_heads(Heads *task) {
  if (const Problem problem = problem_of(*task)) return problem;
  if (heads_scratch_size(*task) > task->scratch_size) return SCRATCH;
  count_multiply_adds(*task);
  task->barrier.arrived = task->barrier.phase = 0;
  in_threads<Heads, run_heads>(task, threads_for(*task));
  return NONE;
}

int64_t fastdec_top_k(TopK *task) {
  if (const Problem problem = problem_of(*task)) return problem;
  in_threads<TopK, top_k>(task);
  if (task->n_parts > 1) in_threads<TopK, merge_parts>(task);
  return NONE;
}

// How many rows have ended, or the negative of a Problem.
int64_t fastdec_append(Append *task) {
  const Problem problem = problem_of(*task);
  return problem ? -problem : append(*task);
}

int64_t fastdec_lead(Blocks *task) {
  if (task->rows.n_new < 1 || task->rows.n_rows < 0) return SIZES;
  lead(*task);
  return NONE;
}

int64_t fastdec_accept(Blocks *task) {
  if (task->rows.n_new < 1 || task->rows.n_rows < 0) return SIZES;
  accept(*task);
  return NONE;
}

// How many rows have ended, or the negative of a Problem.
int64_t fastdec_keep(Blocks *task) {
  const Problem problem = problem_of(*task);
  return problem ? -problem : keep(*task);
}

// How many rows have ended, now or before, or the negative of a Problem.
int64_t fastdec_end_rows(Blocks *task) {
  const Problem problem = problem_of_places(task->rows);
  return problem ? -problem : end_rows(*task);
}

// Answers SCRATCH for a younger table that may become too full.
int64_t fastdec_learn_ngrams(Ngrams *task) {
  if (const Problem problem = problem_of(*task)) return problem;
  if (!has_room(task->young, task->n_rows * task->n * (task->order - 1))) return SCRATCH;
  learn_ngrams(*task);
  return NONE;
}

int64_t fastdec_guess_tokens(const Ngrams *task) {
  if (const Problem problem = problem_of(*task)) return problem;
  guess_tokens(*task);
  return NONE;
}

int64_t fastdec_copy_ngrams(const NgramTable *from, NgramTable *to) {
  if (!is_table(*from) || !is_table(*to)) return SIZES;
  if (!has_room(*to, from->used)) return SCRATCH;
  copy_ngrams(*from, *to);
  return NONE;
}

// The floats of scratch memory that a step of sequential heads needs, or the negative of a Problem.
int64_t fastdec_draft_scratch_size(const Draft *draft) {
  const Problem problem = problem_of(*draft);
  return problem ? -problem : scratch_before(draft->step, draft->step.n_threads);
}

int64_t fastdec_run_draft(Draft *draft) { return take_draft_step(*draft); }

// How many steps were taken, or the negative of a Problem.
int64_t fastdec_draft_chains(DraftChains *task) {
  if (const Problem problem = problem_of(*task)) return -problem;
  Draft &draft = *task->draft;
  BestToken &best = *task->best;
  if (const Problem problem = problem_of_choice(best)) return -problem;
  if (task->n_steps == 0) return 0;
  std::fill_n(task->path_scores, draft.step.n_rows, 0.0f);
  best.normalize = task->confidence > 0;
  best.x = draft.outputs;
  ChainSteps chains = {*task, draft.from_features, 1, threads_for(best), {}, 0, NONE, false};
  begin_step(chains);
  if (chains.goes_on) {
    chains.n_drafting = threads_for(draft);
    draft.step.barrier.arrived = draft.step.barrier.phase = 0;
    best.barrier.arrived = best.barrier.phase = 0;
    in_threads<ChainSteps, take_steps<run_draft, best_tokens>>(
        &chains, std::max(chains.n_drafting, chains.n_choosing));
  }
  draft.from_features = chains.features;
  if (chains.problem) return -chains.problem;
  put_chains_side_by_side(*task, chains.n);
  return chains.n;
}

// How many rows have ended, now or before, or the negative of a Problem. A call that lacks scratch
// memory has changed no row.
int64_t fastdec_verify(Verification *task) {
  task->n_drafted = 0;
  if (const Problem problem = problem_of(*task)) return -problem;
  hand_over(*task);
  Blocks &blocks = *task->blocks;
  if (!blocks.parents) lead(blocks);
  if (const int64_t problem = fastdec_run_step(task->step)) return -problem;
  if (task->heads)
    if (const int64_t problem = fastdec_run_heads(task->heads)) return -problem;
  if (const int64_t problem = fastdec_best_tokens(task->best)) return -problem;
  accept(blocks);
  const int64_t n_kept = fastdec_keep(&blocks);
  if (n_kept < 0) return n_kept;
  if (!blocks.parents) extend_past(*task);
  const int64_t n_ended = end_rows(blocks);
  // Where rows leave, the others get other places.
  if (task->chains && !n_ended)
    task->n_drafted = std::max<int64_t>(fastdec_draft_chains(task->chains), 0);
  return n_ended;
}

// Takes a member's step for a level of trees, up to its logits.
static int64_t take_level_step(const DraftTrees &task, int64_t member, int64_t level, int64_t width,
                               const int64_t *tokens) {
  Draft &draft = task.draft[member];
  Product &product = task.product[member];
  draft.step.n_new = width, draft.step.tokens = tokens;
  product.n = draft.step.n_rows * width;
  const float *const features = draft.from_features;
  if (level) draft.from_features = nullptr;
  const Problem problem = take_draft_step(draft);
  draft.from_features = features;
  if (problem) return problem;
  if (const int64_t of_product = fastdec_multiply(&product)) return of_product;
  divide_logits(product, task.temperature);
  return NONE;
}

// How many tokens the longest tree has, or the negative of a Problem.
int64_t fastdec_draft_trees(DraftTrees *task) {
  if (const Problem problem = problem_of(*task)) return -problem;
  TopK &best = *task->best;
  const int64_t n_rows = task->draft->step.n_rows;
  std::vector<RowPaths> rows(n_rows);
  std::vector<int64_t> tokens(task->roots, task->roots + n_rows);
  int64_t problem = NONE;
  for (int64_t level = 0, width = 1; width && level < task->n_levels; ++level) {
    best.n_rows = best.n_beams = n_rows * width;
    take_flags(*task, level, width);
    for (int64_t member = 0; member < task->n_members && !problem; ++member)
      problem = take_level_step(*task, member, level, width, tokens.data());
    if (problem || (problem = fastdec_top_k(&best))) break;
    const int64_t n_best = best.n_best;
    for (int64_t at = 0; task->types && at < best.n_rows * n_best; ++at)
      best.tokens[at] = task->types[best.tokens[at]];
    for (int64_t row = 0; row < n_rows; ++row) {
      const int64_t at = row * width * n_best;
      rows[row].add_children(best.best + at, best.tokens + at, level + 1, n_best);
      rows[row].choose_level(*task);
    }
    const int64_t width_before = width;
    for (int64_t member = 0; member < task->n_members; ++member)
      width = lay_out_level(*task, task->draft[member].step, rows, width_before, tokens);
  }
  return problem ? -problem : write_trees(*task, rows);
}

// How many tokens the longest tree has, or the negative of a Problem.
int64_t fastdec_grow_trees(Trees *task) {
  const Problem problem = problem_of(*task);
  return problem ? -problem : grow_trees(*task);
}

// The same for trees of heads, whose tokens are ranked first. A refused call may have written to the
// memory between its parts.
int64_t fastdec_grow_head_trees(const HeadTrees *task) {
  if (const Problem problem = problem_of(*task)) return -problem;
  if (const int64_t problem = fastdec_run_heads(task->heads)) return -problem;
  if (const int64_t problem = fastdec_multiply(task->product)) return -problem;
  divide_logits(*task->product, task->temperature);
  if (const int64_t problem = fastdec_top_k(task->top_k)) return -problem;
  return fastdec_grow_trees(task->trees);
}

// How many bytes of scratch memory judging and extending beams need.
int64_t fastdec_beam_scratch_size(const BeamTable *table) { return beam_scratch_size(*table); }

// Returns how many beams are done, or the negative of a Problem.
int64_t fastdec_judge_beams(BeamTable *table) {
  const Problem problem = problem_of_judging(*table);
  return problem ? -problem : judge(*table);
}

// Returns whether a row has to move, or the negative of a Problem.
int64_t fastdec_extend_beams(BeamTable *table) {
  const Problem problem = problem_of_extending(*table);
  return problem ? -problem : extend(*table);
}

// How many bytes of scratch memory a choice of pairs needs.
int64_t fastdec_double_top_k_scratch_size(const DoubleTopK *task) {
  return double_top_k_scratch_size(*task);
}

int64_t fastdec_double_top_k(DoubleTopK *task) {
  const Problem problem = problem_of(*task);
  if (!problem) double_top_k(*task);
  return problem;
}

int64_t fastdec_trace(const Trace *task) {
  const Problem problem = problem_of(*task);
  if (!problem) trace(*task);
  return problem;
}

// How many tokens are forbidden at most, or the negative of a Problem.
int64_t fastdec_find_repeats(Repeats *task) {
  const Problem problem = problem_of(*task);
  return problem ? -problem : find_repeats(*task);
}

// Moves rows in fewer threads than it is given where little is moved.
int64_t fastdec_move_rows(const Move *given) {
  if (const Problem problem = problem_of(*given)) return problem;
  Move move = *given;
  // Without a byte to copy there may be no address to copy from, which memcpy must not be given.
  const int64_t bytes = move.n_parts * n_moved(move) * move.n_heads * move.used;
  if (!bytes) return NONE;
  if (bytes < move.few_bytes) move.n_threads = 1;
  if (scratch_size_of(move) > move.scratch_size) return SCRATCH;
  in_threads<Move, move_rows>(&move);
  return NONE;
}

// How many bytes of scratch memory moving rows needs, at most; 0 where rows are not there.
int64_t fastdec_move_scratch_size(const Move *move) {
  return problem_of(*move) ? 0 : scratch_size_of(*move);
}

int64_t fastdec_move_paths(PathMove *move) {
  if (const Problem problem = problem_of(*move)) return problem;
  move_paths(*move);
  return NONE;
}
}

// What kernels.h declares.

namespace {

// Ends a call whose task does not fit together.
void check(int64_t problem) {
  if (problem)
    throw std::logic_error("a task of the engine's is wrong: problem " + std::to_string(problem));
}

// A number of something, or the negative of a problem.
int64_t checked(int64_t result) {
  check(std::min<int64_t>(result, 0));
  return result;
}

// Memory for a choice, counted in floats.
int64_t top_k_scratch_floats(const TopK &task) { return top_k_scratch_size(task) / 4 + 1; }

}  // namespace

int64_t n_multiply_adds() { return multiply_adds.load(std::memory_order_relaxed); }

void set_width(int64_t widest) { kernels = kernels_for(widest); }

void measure_costs(int64_t n_threads) {
  Threads *const threads = pool_threads();
  threads->costs = n_threads < 2 ? Costs() : measured_costs(threads, n_threads, multiply);
}

void run(Step &task, Buffer<float> &scratch) {
  check(problem_of(task));
  task.scratch_size = scratch_before(task, task.n_threads);
  task.scratch = scratch.reserve(task.scratch_size);
  check(fastdec_run_step(&task));
}

void run(Product &task, Buffer<float> &scratch) {
  task.scratch = scratch.reserve(quantized_size(task.n, task.linear.inputs));
  check(fastdec_multiply(&task));
}

void run(BestToken &task, Buffer<float> &scratch) {
  check(problem_of(task));
  task.scratch_size = best_token_scratch_size(task);
  task.scratch = scratch.reserve(task.scratch_size);
  check(fastdec_best_tokens(&task));
}

void run(Heads &task, Buffer<float> &scratch) {
  task.scratch_size = heads_scratch_size(task);
  task.scratch = scratch.reserve(task.scratch_size);
  check(fastdec_run_heads(&task));
}

void run(TopK &task, Buffer<float> &scratch) {
  task.scratch = scratch.reserve(top_k_scratch_floats(task));
  check(fastdec_top_k(&task));
}

void run(Draft &task, Buffer<float> &scratch) {
  task.step.scratch_size = scratch_before(task.step, task.step.n_threads);
  task.step.scratch = scratch.reserve(task.step.scratch_size);
  check(take_draft_step(task));
}

int64_t run(DraftChains &task, Buffer<float> &of_draft, Buffer<float> &of_choice) {
  Step &step = task.draft->step;
  step.n_new = 1;
  step.scratch_size = scratch_before(step, step.n_threads);
  step.scratch = of_draft.reserve(step.scratch_size);
  task.best->scratch_size = best_token_scratch_size(*task.best);
  task.best->scratch = of_choice.reserve(task.best->scratch_size);
  return checked(fastdec_draft_chains(&task));
}

void divide(Product &task, float temperature) { divide_logits(task, temperature); }

int64_t run(Trees &task) { return checked(fastdec_grow_trees(&task)); }

int64_t run(DraftTrees &task, Buffer<float> &of_draft, Buffer<float> &of_product,
            Buffer<float> &of_choice) {
  const int64_t n = task.draft->step.n_rows * task.width;
  int64_t draft_size = 0, product_size = 0;
  for (int64_t member = 0; member < task.n_members; ++member) {
    Step &step = task.draft[member].step;
    step.n_new = task.width;
    step.scratch_size = scratch_before(step, step.n_threads);
    draft_size = std::max(draft_size, step.scratch_size);
    const int64_t n_inputs = task.product[member].linear.inputs;
    product_size = std::max(product_size, quantized_size(n, n_inputs));
  }
  // One member's step comes behind that of another, in the same memory.
  for (int64_t member = 0; member < task.n_members; ++member) {
    task.draft[member].step.scratch = of_draft.reserve(draft_size);
    task.product[member].scratch = of_product.reserve(product_size);
  }
  TopK &best = *task.best;
  best.n_rows = best.n_beams = n;
  best.scratch = of_choice.reserve(top_k_scratch_floats(best));
  return checked(fastdec_draft_trees(&task));
}

void run(PathMove &task) { check(fastdec_move_paths(&task)); }

void run(Move &task, Buffer<char> &scratch) {
  task.scratch_size = fastdec_move_scratch_size(&task);
  task.scratch = scratch.reserve(task.scratch_size);
  check(fastdec_move_rows(&task));
}

int64_t judge_beams(BeamTable &table, Buffer<char> &scratch) {
  table.scratch_size = beam_scratch_size(table);
  table.scratch = scratch.reserve(table.scratch_size);
  return checked(fastdec_judge_beams(&table));
}

void extend_beams(BeamTable &table) { checked(fastdec_extend_beams(&table)); }

void run(Trace &task) { check(fastdec_trace(&task)); }

}  // namespace fastdec
