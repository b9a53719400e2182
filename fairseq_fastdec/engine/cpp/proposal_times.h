// Decides from measured times whether a search proposes tokens.
//
// Proposals save time if a step takes hardly longer for several tokens than for one, and cost time
// if a batch already uses the whole processor. This depends on the model, the precision, the
// processor and the number of sentences, so the time per token is measured with and without
// proposals. For searches whose output does not depend on the proposals.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace fastdec {

// The time per token in steps with similar numbers of sentences.
class TimesOfSize {
 public:
  // trial: the number of steps of a measurement
  explicit TimesOfSize(int64_t trial = 32) : trial(trial), rest(FIRST_REST * trial) {}

  // Whether the next step has proposals.
  bool proposes() {
    if (!steps_left) choose();
    --steps_left;
    return is_proposing;
  }

  // Records the time of the last step, and the number of tokens that it added to the outputs.
  void learn(double of_step, int64_t n_tokens) {
    seconds += of_step, tokens += n_tokens;
    if (steps_left % trial) return;
    if (tokens) ways[is_proposing].add(seconds / double(tokens));
    seconds = 0, tokens = 0;
  }

 private:
  // The measurements of each way before the first decision.
  static constexpr int64_t FIRST_TRIALS = 3;
  // In measurements: the time between two later trials of the slower way, which quadruples after
  // each, and its maximum.
  static constexpr int64_t FIRST_REST = 32, LONGEST_REST = 512;

  // The last measurements of a way to decode, in seconds per token. Their median is used, since the
  // process may have been interrupted.
  class Way {
   public:
    void add(double measurement) { measured[n_measured++ % int64_t(measured.size())] = measurement; }
    // There must be measurements.
    double median() const {
      auto sorted = measured;
      const int64_t n = std::min(n_measured, int64_t(measured.size()));
      std::sort(sorted.begin(), sorted.begin() + n);
      return sorted[(n - 1) / 2];
    }
    double latest() const { return measured[(n_measured - 1) % int64_t(measured.size())]; }

    int64_t n_measured = 0;

   private:
    std::array<double, 9> measured = {};
  };

  void choose() {
    const Way &without = ways[0], &proposing = ways[1];
    bool is_due = std::min(without.n_measured, proposing.n_measured) < FIRST_TRIALS;
    if (is_due) {
      is_proposing = proposing.n_measured <= without.n_measured;
    } else {
      const bool is_faster = proposing.median() <= without.median();
      // A trial of the slower way is repeated if it was faster than the other way: the measurements
      // before it may be wrong.
      is_due = is_proposing == is_faster
                   ? is_rested
                   : !is_rested && ways[is_proposing].latest() < ways[is_faster].median();
      is_proposing = is_faster != is_due;
    }
    steps_left = is_due ? trial : rest;
    if (is_due && is_rested) rest = std::min(4 * rest, LONGEST_REST * trial);
    is_rested = !is_due;
  }

  std::array<Way, 2> ways;  // without and with proposals
  double seconds = 0;  // of the current measurement, as the tokens
  int64_t tokens = 0;
  // steps_left: until the next choice, which ends a measurement
  int64_t trial, rest, steps_left = 0;
  bool is_proposing = true, is_rested = false;
};

// The times for different numbers of sentences: less than 4, less than 16, and so on.
class ProposalTimes {
 public:
  ProposalTimes() {
    // The more sentences, the fewer steps have enough blocks.
    for (int64_t size = 0; size < N_SIZES; ++size)
      of_sizes[size] = TimesOfSize(std::max<int64_t>(32 >> 2 * size, 4));
  }

  // Whether the next step, of n sentences, has proposals.
  bool propose(int64_t n_rows) {
    int64_t size = 0;
    while (n_rows >>= 2) ++size;
    current = &of_sizes[std::min(size, N_SIZES - 1)];
    return n_cold < COLD ? 2 * n_cold >= COLD : current->proposes();
  }

  // Records the time of this step, and the number of tokens that it added to the outputs.
  void learn(double seconds, int64_t n_tokens) {
    // The first steps allocate memory.
    if (n_cold < COLD)
      ++n_cold;
    else
      current->learn(seconds, n_tokens);
  }

 private:
  // COLD: the number of first steps that do not count; half of them have proposals
  static constexpr int64_t N_SIZES = 4, COLD = 8;

  std::array<TimesOfSize, N_SIZES> of_sizes;
  TimesOfSize *current = nullptr;
  int64_t n_cold = 0;
};

}  // namespace fastdec
