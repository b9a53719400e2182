// The table of instruction sets.

#pragma once

#include <string>

#include "products_amx.h"
#include "products_avx_vnni.h"
#include "products_neon_i8mm.h"

namespace fastdec {
namespace {

// From the slowest to the fastest. A new one needs an entry, its check in processor.h, and its
// products in a file of its own.
constexpr InstructionSet INSTRUCTION_SETS[] = {
    {"generic", has_everything, 4, GENERIC_PRODUCTS},
#if defined(TARGET_AVX2)
    {"avx2", has_avx2, 8, AVX2_PRODUCTS},
#endif
#if defined(TARGET_AVX_VNNI)
    {"avx_vnni", has_avx_vnni, 8, AVX_VNNI_PRODUCTS},
#endif
#if defined(TARGET_AVX512)
    {"avx512", has_avx512, 16, AVX512_PRODUCTS},
    {"avx512_vnni", has_avx512_vnni, 16, AVX512_VNNI_PRODUCTS},
#endif
#if defined(TARGET_AVX512_BF16)
    {"avx512_bf16", has_avx512_bf16, 16, AVX512_BF16_PRODUCTS},
#endif
#if defined(TARGET_AMX)
    {"amx", has_amx, 16, AMX_PRODUCTS},
#endif
#if defined(__aarch64__)
    {"neon", has_everything, 4, NEON_PRODUCTS},
#endif
#if defined(TARGET_NEON_DOT)
    {"neon_dot", has_neon_dot, 4, NEON_DOT_PRODUCTS},
    {"neon_i8mm", has_neon_i8mm, 4, NEON_I8MM_PRODUCTS},
#endif
};

// The fastest one, or the one with a name; null if the processor does not have it.
inline const InstructionSet *find_instruction_set(const std::string &name = {}) {
  const InstructionSet *found = nullptr;
  for (const InstructionSet &set : INSTRUCTION_SETS)
    if ((name.empty() || name == set.name) && set.is_available()) found = &set;
  return found;
}

}  // namespace
}  // namespace fastdec
