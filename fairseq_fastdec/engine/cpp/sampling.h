// Sampling: each row is extended by a token drawn at random, as fairseq draws it.
//
// A beam of K then holds K samples that do not compete. What is drawn depends on the sentence's
// random state, the length and the sample, and not on the sentences beside it.

#pragma once

#include "rules.h"

namespace fastdec {

// The tokens that can be drawn.
struct Sampling {
  int64_t topk = 0;  // that many of the best ones; 0: all
  double topp = 0;   // the fewest best ones whose probabilities sum up to that; 0: all
};

// What is drawn for a beam.
struct Draws {
  uint64_t random_state;  // of its sentence
  int64_t length;         // the tokens of its rows
};

// A number from 0 to below 1 for each sample of a length.
double chance_of(const Draws &draws, int64_t sample);

class Sampler {
 public:
  // n_samples: of each sentence
  Sampler(const Sampling &options, int64_t n_samples) : options(options), n_samples(n_samples) {}

  // Extends each row by one token, and the only row of a beam without tokens by n_samples.
  //   draws: of each beam
  void extend(Decoder &decoder, Chooser &chooser, const BeamRows &beams,
              const std::vector<Draws> &draws, const Limits &limits, Extensions &extensions);

 private:
  // The outputs of a row from which a token is drawn, and the sums of their probabilities.
  void look_at(const float *log_probs, int64_t n_outputs);
  void take_best(const float *log_probs, int64_t n, int64_t n_outputs);

  const Sampling options;
  const int64_t n_samples;
  std::vector<int64_t> outputs;
  std::vector<double> sums;
};

}  // namespace fastdec
