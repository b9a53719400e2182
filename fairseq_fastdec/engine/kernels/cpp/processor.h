// The instruction sets that kernels use: the targets of functions, and what the processor has.
//
// GCC inlines a function into one with another target only if it has no target itself. Therefore
// code that is shared by several targets is INLINE and has no target: it is compiled for its
// callers.

#pragma once

#include <cstdint>

#define INLINE static inline __attribute__((always_inline))

// For loops over sums that must stay in registers. GCC also unrolls them without this, but only
// after it has allocated memory for the sums, which is then written in every iteration.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if !defined(TARGET)  // tests that emulate instructions have no targets
#define TARGET(features) __attribute__((target(features)))
#endif

#if defined(__x86_64__)
#if !defined(__clang__)
// GCC's header uses uninitialised registers.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define AVX512_FEATURES "avx512f,avx512bw,avx512vl,avx2,fma"

#define TARGET_AVX2 TARGET("avx2,fma")
#define TARGET_AVX512 TARGET(AVX512_FEATURES)
#define TARGET_AVX512_VNNI TARGET("avx512vnni," AVX512_FEATURES)
#if __GNUC__ >= 10 || defined(__clang__)
#define TARGET_AVX512_BF16 TARGET("avx512bf16,avx512vnni," AVX512_FEATURES)
#endif
#if __GNUC__ >= 11 || __clang_major__ >= 12
#define TARGET_AVX_VNNI TARGET("avxvnni,avx2,fma")
#if defined(__linux__)
#define TARGET_AMX TARGET("amx-tile,amx-int8,amx-bf16,avx512bf16,avx512vnni," AVX512_FEATURES)
#endif
#endif
#endif

#if defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#if __clang_major__ >= 16  // earlier ones have intrinsics only for the target of the whole file
#define TARGET_NEON_DOT TARGET("dotprod")
#define TARGET_NEON_I8MM TARGET("dotprod,i8mm,bf16")
#elif !defined(__clang__) && __GNUC__ >= 10
#define TARGET_NEON_DOT TARGET("arch=armv8.2-a+dotprod")
#define TARGET_NEON_I8MM TARGET("arch=armv8.2-a+dotprod+i8mm+bf16")
#endif
#endif

namespace fastdec {
namespace {

// Lets other threads of the core run while this one waits.
INLINE void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

inline bool has_everything() { return true; }

#if defined(__x86_64__)
inline bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

inline bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

// Instructions that multiply and add int8 in 512 bits.
inline bool has_avx512_vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

// The registers that the processor fills for a leaf of features. Some compilers support
// instructions, but not their names in __builtin_cpu_supports.
struct Features {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

  explicit Features(unsigned subleaf) { __get_cpuid_count(7, subleaf, &eax, &ebx, &ecx, &edx); }
};

#if defined(TARGET_AVX_VNNI)
// Instructions that multiply and add int8 in 256 bits, also without AVX-512.
inline bool has_avx_vnni() { return has_avx2() && (Features(1).eax >> 4 & 1); }
#endif

#if defined(TARGET_AVX512_BF16)
// Instructions that multiply and add bf16.
inline bool has_avx512_bf16() { return has_avx512_vnni() && (Features(1).eax >> 5 & 1); }
#endif

#if defined(TARGET_AMX)
// Instructions that multiply tiles of int8 and of bf16.
inline bool has_amx() {
  constexpr unsigned BF16 = 1 << 22, TILES = 1 << 24, INT8 = 1 << 25, ALL = BF16 | TILES | INT8;
  constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;  // of Linux's asm/prctl.h
  return has_avx512_bf16() && (Features(0).edx & ALL) == ALL &&
         syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif
#endif

#if defined(__aarch64__)
#if defined(__APPLE__)
inline bool is_on(const char *feature) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value;
}

inline bool has_neon_dot() { return is_on("hw.optional.arm.FEAT_DotProd"); }

inline bool has_neon_i8mm() {
  return has_neon_dot() && is_on("hw.optional.arm.FEAT_I8MM") &&
         is_on("hw.optional.arm.FEAT_BF16");
}
#elif defined(__linux__)
// Bits of AT_HWCAP and AT_HWCAP2, which older headers do not name.
inline bool has_neon_dot() { return getauxval(AT_HWCAP) >> 20 & 1; }

inline bool has_neon_i8mm() {
  constexpr unsigned long BOTH = 1 << 13 | 1 << 14;  // I8MM and BF16
  return has_neon_dot() && (getauxval(AT_HWCAP2) & BOTH) == BOTH;
}
#else
inline bool has_neon_dot() { return false; }
inline bool has_neon_i8mm() { return false; }
#endif
#endif

}  // namespace
}  // namespace fastdec
