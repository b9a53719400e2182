// The interface of the kernels, and their choice for the current processor.

#include "costs.h"
#include "heads.h"
#include "instruction_sets.h"
#include "kernels_of_width.h"
#include "multiply_adds.h"
#include "proposal_chains.h"

#include <stdexcept>
#include <string>

#include "kernels.h"

namespace fastdec {

const InstructionSet *instruction_set = find_instruction_set();

namespace {

Kernels kernels_of([[maybe_unused]] const InstructionSet &set) {
#if defined(__x86_64__)
  if (set.vector_width == 16) return sixteen_kernels;
  if (set.vector_width == 8) return eight_kernels;
#endif
  return four_kernels;
}

Kernels kernels = kernels_of(*instruction_set);

void quantize_inputs(const Product &product, const ThreadSlice &slice) {
  const int64_t inputs = product.linear.inputs;
  for (int64_t token = slice.number; token < product.n; token += slice.count)
    quantize(product.linear, product.x + token * inputs, product.scratch, token, product.n);
}

void multiply(const Product &product, const ThreadSlice &slice) {
  const Linear &linear = product.linear;
  if (!linear.rounds_inputs())
    kernels.multiply_fp32(linear, product.x, product.y, product.n, slice, Epilogue::STORE);
  else
    multiply_quantized(linear, product.scratch, product.y, product.n, slice, Epilogue::STORE);
}

void run_step(const Step &step, const ThreadSlice &slice) {
  kernels.run_step(kernels.multiply_fp32, kernels.attend, step, slice);
}

void best_tokens(const BestTokens &task, const ThreadSlice &slice) {
  kernels.best_tokens(kernels.multiply_fp32, task, slice);
}

// Several choices, each of which runs in one thread.
struct Choices {
  const BestTokens *tasks;
  int64_t n, n_threads;
};

void best_tokens_of_each(const Choices &choices, const ThreadSlice &slice) {
  for (int64_t i = slice.number; i < choices.n; i += slice.count)
    best_tokens(choices.tasks[i], {0, 1});
}

void run_heads(const Heads &task, const ThreadSlice &slice) {
  run_heads(kernels.multiply_fp32, task, slice);
}

void top_k(const TopK &task, const ThreadSlice &slice) { kernels.top_k(task, slice); }

void run_sequential(const SequentialHeads &heads, const ThreadSlice &slice) {
  kernels.run_sequential(kernels.multiply_fp32, kernels.attend, heads, slice);
}

// These functions run tasks whose scratch memory has been allocated.

void multiply_in_threads(Product &task) {
  count_multiply_adds(task);
  const int64_t n_threads = threads_for(task);
  // Starting threads would take longer than quantising few inputs.
  const bool together = quantizes_together(task.linear, task.n);
  if (task.linear.rounds_inputs())
    in_threads<Product, quantize_inputs>(&task, together ? n_threads : 1);
  in_threads<Product, multiply>(&task, n_threads);
}

void take_sequential_step(SequentialHeads &heads) {
  assert_fits(heads);
  count_multiply_adds(heads);
  heads.step.barrier.arrived = heads.step.barrier.phase = 0;
  in_threads<SequentialHeads, run_sequential>(&heads, threads_for(heads));
}

}  // namespace

const Format *format_of(const std::string &dtype) {
  for (const Format *format : FORMATS)
    if (dtype == format->dtype) return format;
  return nullptr;
}

int64_t n_multiply_adds() { return multiply_adds.load(std::memory_order_relaxed); }

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const InstructionSet &set : INSTRUCTION_SETS)
    if (set.is_available()) names.push_back(set.name);
  return names;
}

std::string instruction_set_in_use() { return instruction_set->name; }

void use_instruction_set(const std::string &name) {
  const InstructionSet *const set = find_instruction_set(name);
  if (set == nullptr) {
    std::string available;
    for (const std::string &own : instruction_sets()) available += ", " + own;
    throw std::invalid_argument(name + ": must be one of " + available.substr(2));
  }
  instruction_set = set, kernels = kernels_of(*set);
}

void measure_costs(int64_t n_threads) {
  costs = n_threads < 2 ? Costs() : measured_costs(n_threads, multiply);
}

void run(Step &task, Buffer<float> &scratch) {
  assert_fits(task);
  task.scratch = scratch.reserve(scratch_before(task, task.n_threads));
  count_multiply_adds(task);
  task.barrier.arrived = task.barrier.phase = 0;
  in_threads<Step, run_step>(&task, threads_for(task));
}

void run(Product &task, Buffer<float> &scratch, float temperature) {
  task.scratch = scratch.reserve(quantized_size(task.n, task.linear.inputs));
  multiply_in_threads(task);
  if (temperature == 1) return;
  for (int64_t i = 0; i < task.n * task.linear.outputs; ++i) task.y[i] /= temperature;
}

void run(BestTokens &task, Buffer<float> &scratch) {
  assert_fits(task);
  task.scratch = scratch.reserve(best_tokens_scratch_size(task));
  count_multiply_adds(task);
  task.barrier.arrived = task.barrier.phase = 0;
  in_threads<BestTokens, best_tokens>(&task, threads_for(task));
}

void run(std::vector<BestTokens> &tasks, Buffer<float> &scratch) {
  if (tasks.size() == 1) return run(tasks[0], scratch);
  Choices choices = {tasks.data(), int64_t(tasks.size()), tasks[0].n_threads};
  int64_t size = 0;
  for (BestTokens &task : tasks) {
    assert_fits(task);
    count_multiply_adds(task);
    task.n_threads = 1;
    size += padded(best_tokens_scratch_size(task));
  }
  float *memory = scratch.reserve(size);
  for (BestTokens &task : tasks) {
    task.scratch = memory;
    memory += padded(best_tokens_scratch_size(task));
  }
  in_threads<Choices, best_tokens_of_each>(&choices,
                                           threads_for(tasks.data(), choices.n, choices.n_threads));
}

void run(Heads &task, Buffer<float> &scratch) {
  task.scratch = scratch.reserve(heads_scratch_size(task));
  count_multiply_adds(task);
  task.barrier.arrived = task.barrier.phase = 0;
  in_threads<Heads, run_heads>(&task, threads_for(task));
}

void run(TopK &task, Buffer<float> &scratch) {
  assert_fits(task);
  task.scratch = scratch.reserve(top_k_scratch_size(task));
  const int64_t n_scores = task.n * task.outputs * task.n_members;
  in_threads<TopK, top_k>(&task, n_scores < FEW_SCORES ? 1 : task.n_threads);
}

void run(SequentialHeads &task, Buffer<float> &scratch) {
  task.step.scratch = scratch.reserve(scratch_before(task.step, task.step.n_threads));
  take_sequential_step(task);
}

void run(ProposalChains &task, Buffer<float> &of_heads, Buffer<float> &of_choice) {
  SequentialHeads &heads = *task.heads;
  BestTokens &best = *task.best;
  heads.step.scratch = of_heads.reserve(scratch_before(heads.step, heads.step.n_threads));
  best.scratch = of_choice.reserve(best_tokens_scratch_size(best));
  assert_fits(best);
  if (task.n_steps == 0) return;
  best.x = heads.outputs;
  ChainSteps chains = {task, heads.from_features, 1, threads_for(best), {}, 0, true};
  begin_step(chains);
  chains.n_proposing = threads_for(heads);
  heads.step.barrier.arrived = heads.step.barrier.phase = 0;
  best.barrier.arrived = best.barrier.phase = 0;
  in_threads<ChainSteps, take_steps<run_sequential, best_tokens>>(
      &chains, std::max(chains.n_proposing, chains.n_choosing));
  heads.from_features = chains.features;
}

}  // namespace fastdec
