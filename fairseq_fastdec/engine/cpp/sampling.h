// Sampling: each row is extended by a random token, as in fairseq.
//
// A beam of size K has K samples that do not compete. The draws depend on the sentence's random
// state, the length and the sample, but not on other sentences.

#pragma once

#include "rules.h"

namespace fastdec {

// The tokens that can be drawn.
struct Sampling {
  int64_t topk = 0;  // the number of best tokens; 0: all
  double topp = 0;   // the smallest number of best tokens with this total probability; 0: all
};

// Determines the draws of a beam.
struct Draws {
  uint64_t random_state;  // of its sentence
  int64_t length;         // of its rows
};

// A pseudorandom number in [0, 1) for a sample.
double chance_of(const Draws &draws, int64_t sample);

class Sampler {
 public:
  // n_samples: the number of samples of each sentence
  Sampler(const Sampling &options, int64_t n_samples) : options(options), n_samples(n_samples) {}

  // Extends each row by one token, and the single row of a new beam by n_samples tokens.
  //   draws: for each beam
  void extend(Decoder &decoder, Chooser &chooser, const BeamRows &beams,
              const std::vector<Draws> &draws, const Limits &limits, Extensions &extensions);

 private:
  // Sets the outputs that can be drawn for a row, and their cumulative probabilities.
  void look_at(const float *log_probs, int64_t n_outputs);
  // Takes the topk best outputs, or all.
  void take_best(const float *log_probs, int64_t n_outputs);
  // Takes the best outputs until they have a total probability of topp, from those with a
  // log-probability of at least `least`; returns whether there are enough.
  bool take_probable(const float *log_probs, int64_t n_outputs, double least);

  const Sampling options;
  const int64_t n_samples;
  std::vector<int64_t> outputs;
  std::vector<double> sums;
};

}  // namespace fastdec
