// The kernels that are compiled for each width of vectors, each in a file of its own.

#pragma once

#include "best_tokens.h"
#include "sequential_heads.h"
#include "top_k.h"
#include "transformer.h"

namespace fastdec {

// A step gets multiply_fp32 as a pointer: otherwise GCC would clone it for each call in the step, and
// no longer clone those of bf16 and int8, which would become slower. Attention is a pointer because
// it is long, so that it is compiled once.
struct Kernels {
  MultiplyFp32 multiply_fp32;
  Attend attend;
  void (*run_step)(MultiplyFp32 multiply_fp32, Attend attend, const Step &step,
                   const ThreadSlice &slice);
  void (*best_tokens)(MultiplyFp32 multiply_fp32, const BestTokens &task,
                      const ThreadSlice &slice);
  void (*top_k)(const TopK &task, const ThreadSlice &slice);
  void (*run_sequential)(MultiplyFp32 multiply_fp32, Attend attend, const SequentialHeads &heads,
                         const ThreadSlice &slice);
};

extern const Kernels four_kernels, eight_kernels, sixteen_kernels;

}  // namespace fastdec

#define KERNELS_FOR(NAME, VEC, TARGET)                                                          \
  namespace fastdec { namespace {                                                               \
  TARGET void multiply_fp32_of(const Linear &linear, const float *x, float *y, int64_t n,       \
                               const ThreadSlice &slice, Epilogue epilogue) {                   \
    multiply_fp32<VEC>(linear, x, y, n, slice, epilogue);                                       \
  }                                                                                             \
  TARGET void attend_of(const Attention &task, const Workspace &own) {                          \
    attend_to_head<VEC>(task, own);                                                             \
  }                                                                                             \
  TARGET void run_step_of(MultiplyFp32 multiply_fp32, Attend attend, const Step &step,          \
                          const ThreadSlice &slice) {                                           \
    run_step<VEC>(multiply_fp32, attend, step, slice);                                          \
  }                                                                                             \
  TARGET void best_tokens_of(MultiplyFp32 multiply_fp32, const BestTokens &task,                \
                             const ThreadSlice &slice) {                                        \
    best_tokens<VEC>(multiply_fp32, task, slice);                                               \
  }                                                                                             \
  TARGET void top_k_of(const TopK &task, const ThreadSlice &slice) { top_k<VEC>(task, slice); } \
  TARGET void run_sequential_of(MultiplyFp32 multiply_fp32, Attend attend,                      \
                                const SequentialHeads &heads, const ThreadSlice &slice) {       \
    run_sequential<VEC>(multiply_fp32, attend, heads, slice);                                   \
  } }                                                                                           \
  const Kernels NAME##_kernels = {multiply_fp32_of, attend_of, run_step_of,                     \
                                  best_tokens_of,   top_k_of,  run_sequential_of}; }
