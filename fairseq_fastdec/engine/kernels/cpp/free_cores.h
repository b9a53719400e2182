// The number of threads of a call while other programs use the cores.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fastdec {

// All threads of a call wait at each barrier for those that have no core. If fewer threads would be
// faster, calls get as many as had cores, for a while. All times are in nanoseconds.
class FreeCores {
 public:
  // The number of threads of a call that asks for n.
  unsigned limit(unsigned n, int64_t now) const { return now < until ? std::min(n, most) : n; }

  // Whether the threads of the next call must measure their times, which takes system calls.
  bool is_watched() const { return watched; }

  // Learns from a call of n threads that has ended.
  //   lost: the time that the threads were without a core, in total; used if it was measured
  void learn(unsigned n, int64_t start, int64_t now, int64_t lost) {
    const bool was_watched = watched;
    watched = now - start > LEAST_TIME || now < until;
    if (!was_watched || now - start <= LEAST_TIME) return;
    const double n_lost = double(lost) / (now - start);
    const double n_fewer = std::max(1.0, std::floor(n - n_lost));
    // The speeds relative to n threads with cores: at worst, all wait for one without a core.
    const double speed = 1 - n_lost, of_fewer = n_fewer / n;
    if (speed >= CLEARLY_LESS * of_fewer) return;
    most = unsigned(n_fewer);
    // Longer if the last limit ended too early.
    if (now >= until) pause = now - until > pause ? FIRST_PAUSE : std::min(2 * pause, LAST_PAUSE);
    until = now + pause;
  }

 private:
  static constexpr int64_t MS = 1000000;
  static constexpr int64_t LEAST_TIME = MS, FIRST_PAUSE = 50 * MS, LAST_PAUSE = 4000 * MS;
  static constexpr double CLEARLY_LESS = 0.75;

  unsigned most = 1;
  int64_t until = 0, pause = FIRST_PAUSE;
  bool watched = false;
};

}  // namespace fastdec
