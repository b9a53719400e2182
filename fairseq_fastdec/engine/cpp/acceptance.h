// How p_1 accepts proposals (Stern et al. 2018, sections 3 and 5).

#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fastdec {

struct Acceptance {
  enum Kind { EXACT, AMONG_BEST, DISTANCE };

  std::string acceptance = "exact";
  int64_t acceptance_topk = 1;     // topk: the proposal is one of p_1's best tokens (5.1)
  double acceptance_distance = 0;  // distance: the maximum difference from p_1's best token (5.2)
  std::vector<double> values;      // distance: the integer of each type; NaN: none
  int64_t min_block_size = 1;      // at least this many tokens of a block are kept (5.3)

  template <typename Visit>
  void each(Visit &&visit) {
    visit("acceptance", acceptance), visit("acceptance_topk", acceptance_topk);
    visit("acceptance_distance", acceptance_distance), visit("values", values);
    visit("min_block_size", min_block_size);
  }

  // Raises std::invalid_argument for an unknown name.
  Kind kind() const {
    if (acceptance == "exact") return EXACT;
    if (acceptance == "topk") return AMONG_BEST;
    if (acceptance == "distance") return DISTANCE;
    throw std::invalid_argument("acceptance: " + acceptance);
  }

  // Whether p_1's scores of the proposals are needed.
  bool asks() const { return kind() != EXACT || min_block_size > 1; }

  // The prediction of p_1 at the position of a proposal. A score of -infinity means not possible.
  // The scores are only set if asks().
  struct Answer {
    int64_t best;
    float score, nth_best;  // of the proposal, and of the last of the n best tokens
  };

  // Whether a proposal is accepted; number is its index in the block, from 0.
  bool accepts(int64_t proposal, int64_t number, const Answer &answer) const {
    if (!asks()) return proposal == answer.best;
    const bool is_possible = answer.score > -INFINITY;
    if (number < min_block_size) return is_possible;
    switch (kind()) {
      case EXACT:
        return proposal == answer.best;
      case AMONG_BEST:
        return is_possible && answer.score >= answer.nth_best;
      case DISTANCE:
        // Comparisons with NaN, the value of types that are no integers, are false.
        return proposal == answer.best ||
               (is_possible &&
                std::abs(values[proposal] - values[answer.best]) <= acceptance_distance);
    }
    return false;
  }
};

}  // namespace fastdec
