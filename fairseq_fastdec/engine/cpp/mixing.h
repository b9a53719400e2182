// A hash function.

#pragma once

#include <cstdint>

namespace fastdec {

// The mixing function of SplitMix64 (Steele, Lea and Flood 2014).
inline uint64_t mixed(uint64_t state, int64_t number) {
  state += uint64_t(number) + 0x9E3779B97F4A7C15;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EB;
  return state ^ (state >> 31);
}

}  // namespace fastdec
