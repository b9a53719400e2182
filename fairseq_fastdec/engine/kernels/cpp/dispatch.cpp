// The entry points for Python, and the choice of kernels for the processor that this runs on.

#include "beams.h"
#include "row_moves.h"
#include "top_k.h"
#include "transformer.h"

namespace {

// What is compiled for each kind of processor. A step gets multiply_fp32 as a pointer: where GCC
// knows the function, it clones that for each of the step's calls, and no longer those of bf16 and
// int8, which become slower.
struct Kernels {
  MultiplyFp32 multiply_fp32;
  void (*run_step)(MultiplyFp32 multiply_fp32, const Step &step, const ThreadSlice &slice);
  void (*top_k)(const TopK &task, const ThreadSlice &slice);
};

#define KERNELS_FOR(NAME, VEC, TARGET)                                                        \
  TARGET void multiply_fp32_##NAME(const Linear &linear, const float *x, float *y, int64_t n, \
                                   const ThreadSlice &slice, Epilogue epilogue) {             \
    multiply_fp32<VEC>(linear, x, y, n, slice, epilogue);                                     \
  }                                                                                           \
  TARGET void run_step_##NAME(MultiplyFp32 multiply_fp32, const Step &step,                   \
                              const ThreadSlice &slice) {                                     \
    run_step<VEC>(multiply_fp32, step, slice);                                                \
  }                                                                                           \
  TARGET void top_k_##NAME(const TopK &task, const ThreadSlice &slice) {                      \
    top_k_of_parts<VEC>(task, slice);                                                         \
  }                                                                                           \
  constexpr Kernels NAME##_kernels = {multiply_fp32_##NAME, run_step_##NAME, top_k_##NAME};

KERNELS_FOR(any, Vec4, )
#if defined(__x86_64__)
KERNELS_FOR(avx2, Vec8, TARGET_AVX2)
KERNELS_FOR(avx512, Vec16, TARGET_AVX512)
#endif

// The kernels with the widest vectors that the processor has, of at most so many floats.
Kernels kernels_for(int64_t widest) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (widest >= width<Vec16>() && has_avx512()) return avx512_kernels;
  if (widest >= width<Vec8>() && has_avx2()) return avx2_kernels;
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
  kernels.run_step(kernels.multiply_fp32, step, slice);
}

void top_k(const TopK &task, const ThreadSlice &slice) { kernels.top_k(task, slice); }

}  // namespace

extern "C" {

int64_t fastdec_block() { return BLOCK; }

int64_t fastdec_pair() { return PAIR; }

int64_t fastdec_group() { return GROUP; }

int64_t fastdec_has_bf16() { return has_bf16(); }

int64_t fastdec_has_int8() { return has_int8(); }

// The size of a structure, by its place in structures.py's list of all; -1 behind the last.
int64_t fastdec_size_of(int64_t structure) {
  constexpr int64_t sizes[] = {sizeof(Linear),  sizeof(Norm),    sizeof(Layer),   sizeof(Model),
                               sizeof(Cache),   sizeof(Threads), sizeof(Barrier), sizeof(Step),
                               sizeof(Product), sizeof(TopK),    sizeof(BeamTable),
                               sizeof(Trace),   sizeof(Move)};
  constexpr int64_t n = sizeof(sizes) / sizeof(sizes[0]);
  return is_within(structure, n) ? sizes[structure] : -1;
}

// For tests: from now on computes in vectors of at most so many floats.
void fastdec_set_width(int64_t widest) { kernels = kernels_for(widest); }

// How many floats of scratch memory a product without fp32 weights needs.
int64_t fastdec_product_scratch_size(int64_t n, int64_t inputs) {
  return quantized_size(n, inputs);
}

// How many floats of scratch memory a step needs, or the negative of a Problem.
int64_t fastdec_step_scratch_size(const Step *step) {
  const Problem problem = problem_of(*step);
  return problem ? -problem : scratch_before(*step, step->n_threads);
}

// How many bytes of scratch memory a choice needs.
int64_t fastdec_top_k_scratch_size(const TopK *task) { return top_k_scratch_size(*task); }

// The following do what they are asked for, or return a Problem.

int64_t fastdec_run_step(Step *step) {
  if (const Problem problem = problem_of(*step)) return problem;
  if (scratch_before(*step, step->n_threads) > step->scratch_size) return SCRATCH;
  step->barrier.arrived = step->barrier.phase = 0;
  in_threads<Step, run_step>(step);
  return NONE;
}

int64_t fastdec_multiply(Product *product) {
  if (const Problem problem = problem_of(*product)) return problem;
  if (!product->linear.weight) in_threads<Product, quantize_inputs>(product);
  in_threads<Product, multiply>(product);
  return NONE;
}

int64_t fastdec_top_k(TopK *task) {
  if (const Problem problem = problem_of(*task)) return problem;
  in_threads<TopK, top_k>(task);
  if (task->n_parts > 1) in_threads<TopK, merge_parts>(task);
  return NONE;
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

int64_t fastdec_trace(const Trace *task) {
  const Problem problem = problem_of(*task);
  if (!problem) trace(*task);
  return problem;
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
}
