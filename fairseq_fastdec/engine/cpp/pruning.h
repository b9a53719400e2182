// How the hypotheses of a beam are pruned (Yang et al. 2020, section 4).

#pragma once

#include <cmath>
#include <cstdint>

namespace fastdec {

struct Pruning {
  // Delta: candidates that are worse than the best one by more than this are pruned.
  double prune_threshold = INFINITY;
  // M: the maximum number of candidates that continue the same entry.
  int64_t max_candidates = INT64_MAX;

  template <typename Visit>
  void each(Visit &&visit) {
    visit("prune_threshold", prune_threshold), visit("max_candidates", max_candidates);
  }
};

}  // namespace fastdec
