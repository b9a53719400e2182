// The counts of a search: calls of the models, and the time of its parts.

#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace fastdec {

// The seconds of each part of a search.
struct Seconds {
  double encoder = 0;  // including the keys and values of the sources
  double decoder = 0;  // the layers of the decoder
  double heads = 0;    // proposals of prediction heads
  double choice = 0;   // the output layer, the softmax and the choice of tokens
  double search = 0;   // everything else
};

// Attributes time to consecutive parts.
class Clock {
 public:
  // Adds the time since the last call, or since the construction, to a part.
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
  // Blocks.
  int64_t verified = 0;           // the number of verified blocks, over all sentences
  std::vector<int64_t> accepted;  // how often the proposal of p_2, p_3, ... was accepted
  int64_t drafted = 0;            // the number of proposed tokens of given drafts
  int64_t drafted_right = 0;      // the number of these that were accepted
  // Beams.
  int64_t beam_steps = 0;  // the number of beams over all decoder invocations
  int64_t waiting = 0;     // the number of candidates on these beams that have ended
};

}  // namespace fastdec
