// Decides from measured times whether a search proposes tokens.
//
// Proposals save time if a step takes hardly longer for several tokens than for one, and cost time
// if a batch already uses the whole processor. This depends on the model, the precision, the
// processor and the number of sentences, so steps with and without proposals are timed. For
// searches whose output does not depend on the proposals.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace fastdec {

// The choice for steps with similar numbers of sentences.
//
// A trial is a few steps with or without proposals. Two trials of both ways that follow each other
// give a ratio of times, in which changes of the machine's speed cancel out. Between two trials of
// the slower way, the faster one is used for a time that doubles while the choice stays the same, so
// a wrong choice is soon corrected and trials of a slow way become rare.
class TimesOfSize {
 public:
  // trial: the number of steps of a trial
  explicit TimesOfSize(int64_t trial = 8) : trial(trial) {}

  // Whether the next step has proposals.
  bool proposes() {
    if (!steps_left) choose();
    --steps_left;
    return is_proposing;
  }

  // Records the time of the last step, and the number of tokens that it added to each output.
  void learn(double of_step, double n_tokens) {
    tokens[is_proposing].add(n_tokens);
    seconds += of_step;
    if (steps_left % trial) return;
    if (was_proposing != is_proposing && before > 0)
      ratios[n_ratios++ % int64_t(ratios.size())] =
          is_proposing ? seconds / before : before / seconds;
    before = seconds, was_proposing = is_proposing, seconds = 0;
  }

 private:
  // The number of ratios before the first choice.
  static constexpr int64_t FIRST_RATIOS = 5;
  // In trials: the time until the slower way is tried again.
  static constexpr int64_t FIRST_REST = 4, LONGEST_REST = 1024;

  // The mean number of tokens of a step, in which recent steps count more.
  class Mean {
   public:
    void add(double value) {
      sum += value, ++n;
      if (n > LONG_AGO) sum /= 2, n /= 2;
    }
    double value() const { return sum / std::max(n, 1.0); }

   private:
    static constexpr double LONG_AGO = 512;
    double sum = 0, n = 0;
  };

  // The median, since the process may have been interrupted.
  double median_ratio() const {
    auto sorted = ratios;
    const int64_t n = std::min(n_ratios, int64_t(sorted.size()));
    std::sort(sorted.begin(), sorted.begin() + n);
    return sorted[n / 2];
  }

  void choose() {
    if (n_ratios < FIRST_RATIOS) {
      is_proposing = !is_proposing, steps_left = trial;
      return;
    }
    const bool is_faster = median_ratio() * tokens[0].value() <= tokens[1].value();
    if (is_resting && is_proposing == is_faster) {
      is_proposing = !is_faster, is_resting = false, steps_left = trial;
      return;
    }
    rest = is_faster == was_faster ? std::min(2 * rest, LONGEST_REST) : FIRST_REST;
    is_proposing = was_faster = is_faster, is_resting = true, steps_left = rest * trial;
  }

  std::array<Mean, 2> tokens;     // without and with proposals
  std::array<double, 9> ratios{};  // the last times of a trial with proposals to one without
  double seconds = 0, before = 0;  // of the current trial, and of the one before
  int64_t trial, n_ratios = 0, rest = FIRST_REST, steps_left = 0;
  bool is_proposing = true, was_proposing = true, was_faster = false, is_resting = false;
};

// The times for different numbers of sentences: less than 4, less than 16, and so on.
class ProposalTimes {
 public:
  ProposalTimes() {
    // The more sentences, the longer a step takes, and the fewer there are.
    for (int64_t size = 0; size < N_SIZES; ++size)
      of_sizes[size] = TimesOfSize(std::max<int64_t>(8 >> size, 4));
  }

  // Whether the next step, of n sentences, has proposals.
  bool propose(int64_t n_rows) {
    n = n_rows;
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
      current->learn(seconds, double(n_tokens) / double(n));
  }

 private:
  // COLD: the number of first steps that do not count; half of them have proposals
  static constexpr int64_t N_SIZES = 4, COLD = 8;

  std::array<TimesOfSize, N_SIZES> of_sizes;
  TimesOfSize *current = nullptr;
  int64_t n = 0, n_cold = 0;
};

}  // namespace fastdec
