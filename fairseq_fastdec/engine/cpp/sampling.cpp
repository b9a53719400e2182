#include "sampling.h"

#include <cfloat>
#include <cmath>
#include <numeric>

#include "mixing.h"

namespace fastdec {

double chance_of(const Draws &draws, int64_t sample) {
  return double(mixed(mixed(draws.random_state, draws.length), sample) >> 11) * 0x1p-53;
}

void Sampler::extend(Decoder &decoder, Chooser &chooser, const BeamRows &beams,
                     const std::vector<Draws> &draws, const Limits &limits,
                     Extensions &extensions) {
  extensions.n = n_samples;
  extensions.totals.assign(beams.n_beams * n_samples, -INFINITY);
  extensions.tokens.assign(beams.n_beams * n_samples, 0);
  extensions.rows.assign(beams.n_beams * n_samples, 0);
  const float *log_probs = nullptr;
  const OutputLayer *layer = nullptr;
  int64_t first = 0, end = 0;  // the rows of log_probs
  for (int64_t beam = 0; beam < beams.n_beams; ++beam) {
    int64_t to = beam * n_samples;
    for (int64_t row = beams.starts[beam]; row < beams.starts[beam + 1]; ++row) {
      if (row == end) {
        const StateGroup &group = limits.group_of(row);
        first = row, end = std::min(row + MOST_DISTRIBUTIONS, group.end());
        log_probs = chooser.log_probs(decoder, first, end - first, limits);
        layer = &chooser.layer_of(group);
      }
      const float *own = log_probs + (row - first) * layer->n_outputs();
      look_at(own, layer->n_outputs());
      const int64_t place = row - beams.starts[beam];
      for (int64_t draw = 0; draw < (draws[beam].length ? 1 : n_samples); ++draw) {
        const double total = sums.back();
        // The product could be rounded up to the total.
        const double wanted =
            std::min(chance_of(draws[beam], place + draw) * total, total * (1 - 0x1p-50));
        const auto found = std::upper_bound(sums.begin(), sums.end(), wanted);
        const int64_t at = std::min<int64_t>(found - sums.begin(), int64_t(sums.size()) - 1);
        const int64_t output = outputs[at];
        // Rows in which no token has a probability have no extension.
        if (!(own[output] > -INFINITY)) continue;
        extensions.totals[to] = beams.totals[row] + own[output];
        extensions.tokens[to] = layer->type_of(output), extensions.rows[to++] = row;
      }
    }
  }
}

void Sampler::look_at(const float *log_probs, int64_t n_outputs) {
  if (options.topp > 0) {
    // The other outputs have a total probability of less than 1 - topp.
    const double least = std::max(1 - options.topp, 0.0) / (2.0 * n_outputs);
    // EOS can have a tiny probability in a sentence that has to end.
    if (!take_probable(log_probs, n_outputs, std::log(least)))
      take_probable(log_probs, n_outputs, -INFINITY);
  } else {
    take_best(log_probs, n_outputs);
  }
  // Relative to the largest, which can be tiny.
  float largest = -FLT_MAX;
  for (int64_t output : outputs) largest = std::max(largest, log_probs[output]);
  sums.clear();
  double sum = 0;
  for (int64_t output : outputs) sums.push_back(sum += std::exp(log_probs[output] - largest));
}

bool Sampler::take_probable(const float *log_probs, int64_t n_outputs, double least) {
  outputs.clear();
  for (int64_t output = 0; output < n_outputs; ++output)
    if (!(log_probs[output] < least)) outputs.push_back(output);
  const auto is_worse = [&](int64_t a, int64_t b) {
    return log_probs[a] != log_probs[b] ? log_probs[a] < log_probs[b] : a > b;
  };
  std::make_heap(outputs.begin(), outputs.end(), is_worse);
  double probability = 0;
  auto first_taken = outputs.end();
  // Includes the output that reaches the sum.
  while (first_taken != outputs.begin() && probability < options.topp) {
    std::pop_heap(outputs.begin(), first_taken--, is_worse);
    probability += std::exp(log_probs[*first_taken]);
  }
  outputs.erase(outputs.begin(), first_taken);
  std::reverse(outputs.begin(), outputs.end());
  return probability >= options.topp;
}

void Sampler::take_best(const float *log_probs, int64_t n_outputs) {
  outputs.resize(n_outputs);
  std::iota(outputs.begin(), outputs.end(), 0);
  if (!options.topk) return;
  const int64_t n = std::min(options.topk, n_outputs);
  std::partial_sort(outputs.begin(), outputs.begin() + n, outputs.end(), [&](int64_t a, int64_t b) {
    return log_probs[a] != log_probs[b] ? log_probs[a] > log_probs[b] : a < b;
  });
  outputs.resize(n);
}

}  // namespace fastdec
