// The prediction heads of blockwise models (Stern et al. 2018, section 6).

#pragma once

#include "linear.h"

namespace fastdec {
namespace {

// The scratch memory of heads.
struct HeadsMemory {
  float *quantized;  // [quantized_size(n, the larger number of inputs of both layers)]
  float *hidden;     // [n, hidden units]
  float *outputs;    // [n, n_heads * dim], or [n_heads, n, dim] with one output layer per head
};

// Lays out the memory from `from` on; returns its end.
INLINE float *lay_out(const Heads &task, float *from, HeadsMemory *memory) {
  const int64_t n = task.n, units = task.hidden.outputs;
  memory->quantized = from;
  memory->hidden = from + quantized_size(n, std::max(task.hidden.inputs, units));
  memory->outputs = memory->hidden + n * units;
  return memory->outputs + n * task.n_heads * task.hidden.inputs;
}

// The number of floats of scratch memory for heads.
int64_t heads_scratch_size(const Heads &task) { return floats_laid_out<HeadsMemory>(task); }

// y [n, outputs] from x with a stride; called by all threads of a call.
INLINE void apply_layer(MultiplyFp32 multiply_fp32, const Heads &task, const Linear &linear,
                        const float *x, int64_t stride, float *y, Epilogue epilogue,
                        const HeadsMemory &memory, const ThreadSlice &slice) {
  const int64_t n = task.n;
  if (!linear.rounds_inputs() && stride == linear.inputs) {
    multiply_fp32(linear, x, y, n, slice, epilogue);
    return;
  }
  if (!linear.rounds_inputs()) {
    // One token at a time, since their inputs are not adjacent.
    for (int64_t token = 0; token < n; ++token)
      multiply_fp32(linear, x + token * stride, y + token * linear.outputs, 1, slice, epilogue);
    return;
  }
  wait_at(task.barrier, slice);
  for (int64_t token = slice.number; token < n; token += slice.count)
    quantize(linear, x + token * stride, memory.quantized, token, n);
  wait_at(task.barrier, slice);
  multiply_quantized(linear, memory.quantized, y, n, slice, epilogue);
}

INLINE void run_heads(MultiplyFp32 multiply_fp32, const Heads &task, const ThreadSlice &slice) {
  HeadsMemory memory;
  lay_out(task, task.scratch, &memory);
  const int64_t n = task.n, dim = task.hidden.inputs, units = task.hidden.outputs;
  apply_layer(multiply_fp32, task, task.hidden, task.x, dim, memory.hidden,
              task.gelu ? Epilogue::GELU : Epilogue::RELU, memory, slice);
  wait_at(task.barrier, slice);
  const int64_t own_units = task.outputs[0].inputs;
  for (int64_t output = 0; output < task.n_outputs; ++output)
    apply_layer(multiply_fp32, task, task.outputs[output], memory.hidden + output * own_units,
                units, memory.outputs + output * n * dim, Epilogue::STORE, memory, slice);
  wait_at(task.barrier, slice);
  const bool is_shared = task.n_outputs == 1;
  for (int64_t token = slice.number; token < n; token += slice.count) {
    for (int64_t head = 0; head < task.n_heads; ++head) {
      const int64_t at = token * task.n_heads + head;
      const float *output = memory.outputs + (is_shared ? at : head * n + token) * dim;
      for (int64_t i = 0; i < dim; ++i)
        task.y[at * dim + i] = task.x[token * dim + i] + output[i];
    }
  }
}

}  // namespace
}  // namespace fastdec
