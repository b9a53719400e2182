// The instructions that a processor may have, and the targets of functions that use them.
//
// GCC inlines nothing into a function of another target, unless it has no target of its own. So
// all that kernels of several targets share is INLINE and has none: it is compiled for whoever
// calls it.

#pragma once

#include <cstdint>

#define INLINE static inline __attribute__((always_inline))

// Of loops over sums that have to stay in registers: GCC unrolls them by itself, too, but only after
// it has given the sums a place in memory, which then is written to in every turn.
#define UNROLL _Pragma("GCC unroll 16")

#if defined(__x86_64__)
// GCC's own header makes registers of nothing.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <cpuid.h>
#include <immintrin.h>

#define TARGET_AVX2 __attribute__((target("avx2,fma")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx2,fma")))
#define TARGET_INT8 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")))
#if __GNUC__ >= 10 || defined(__clang__)
#define TARGET_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma")))
#endif
#endif

namespace fastdec {
namespace {

// The most floats in a vector that kernels use; tests lower it, to run those of other processors.
int64_t widest_vectors = 16;

#if defined(__x86_64__)
inline bool has_avx2() {
  return widest_vectors >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

inline bool has_avx512() { return widest_vectors >= 16 && __builtin_cpu_supports("avx512f"); }

// Instructions that multiply and add int8 (VNNI).
inline bool has_vnni() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

#if defined(TARGET_BF16)
// Instructions that multiply and add bf16.
inline bool has_bf16() {
  // Compilers learned to compile these instructions before __builtin_cpu_supports knew their name.
  static const bool is_there = [] {
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 5 & 1);
  }();
  return has_avx512() && is_there;
}
#endif

}  // namespace
}  // namespace fastdec
