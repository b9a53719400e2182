// What a search counts: calls of the models, and the time that its parts take.

#pragma once

#include <chrono>
#include <cstdint>

namespace fastdec {

// Seconds of a search by part.
struct Seconds {
  double encoder = 0;  // with the keys and values of the sources
  double decoder = 0;  // its layers
  double heads = 0;    // that propose
  double choice = 0;   // the output layer, the softmax and the choice of tokens
  double search = 0;   // all else
};

// Divides time among parts: one begins where the one before ends.
class Clock {
 public:
  // What has passed since the last call, or since this clock was made, is a part's.
  void count(double &part) {
    const Instant now = std::chrono::steady_clock::now();
    part += std::chrono::duration<double>(now - last).count();
    last = now;
  }

 private:
  using Instant = std::chrono::steady_clock::time_point;

  Instant last = std::chrono::steady_clock::now();
};

struct Counts {
  int64_t encoder_invocations = 0, decoder_invocations = 0, row_invocations = 0;
  Seconds seconds;
};

}  // namespace fastdec
