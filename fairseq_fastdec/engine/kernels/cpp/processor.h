// The instruction sets that kernels use, and the targets of functions that use them.
//
// GCC inlines a function into one with another target only if it has no target itself. Therefore
// code that is shared by several targets is INLINE and has no target: it is compiled for its
// callers.

#pragma once

#include <cstdint>

#define INLINE static inline __attribute__((always_inline))

// For loops over sums that must stay in registers. GCC also unrolls them without this, but only
// after it has allocated memory for the sums, which is then written in every iteration.
#define UNROLL _Pragma("GCC unroll 16")

#if defined(__x86_64__)
// GCC's header uses uninitialised registers.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define TARGET_AVX2 __attribute__((target("avx2,fma")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx2,fma")))
#define TARGET_INT8 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma")))
#if __GNUC__ >= 10 || defined(__clang__)
#define TARGET_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,avx2,fma")))
#endif
#if defined(__linux__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#define TARGET_AMX                                                                     \
  __attribute__((target("amx-tile,amx-int8,amx-bf16,avx512f,avx512bw,avx512vl,avx512vnni," \
                        "avx512bf16,avx2,fma")))
#endif
#endif

namespace fastdec {
namespace {

// The largest size of a vector or tile in floats; tests reduce it to run the kernels for other
// processors.
constexpr int64_t TILE_FLOATS = 256;
int64_t widest_vectors = TILE_FLOATS;

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
  // Some compilers support these instructions, but not their name in __builtin_cpu_supports.
  static const bool is_there = [] {
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 5 & 1);
  }();
  return has_avx512() && is_there;
}
#endif

#if defined(TARGET_AMX)
// Instructions that multiply tiles of int8 and of bf16.
inline bool has_amx() {
  static const bool is_there = [] {
    constexpr unsigned BF16 = 1 << 22, TILES = 1 << 24, INT8 = 1 << 25, ALL = BF16 | TILES | INT8;
    constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;  // of Linux's asm/prctl.h
    unsigned eax, ebx, ecx, edx;
    return has_vnni() && has_bf16() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
           (edx & ALL) == ALL && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
  }();
  return widest_vectors >= TILE_FLOATS && is_there;
}
#endif

}  // namespace
}  // namespace fastdec
