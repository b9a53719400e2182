// fairseq's rules about the next token, and the choice of the best token under them.

#pragma once

#include <vector>

#include "decoder.h"
#include "output_layers.h"
#include "rows.h"

namespace fastdec {

// The options of fairseq that restrict tokens. A step is the position, from 0, of the output token
// that a distribution is for.
struct Rules {
  int64_t eos = 0, pad = 0, unk = 0;
  std::vector<int64_t> never;  // types that no step may give, padding among them
  float unk_penalty = 0, temperature = 1;
  int64_t min_len = 1;
  int64_t no_repeat_ngram = 0;  // n of the n-grams that an output holds once at most; 0: no rule

  // --min-len is not reached. fairseq waives it over the width of a prefix.
  bool may_not_end(int64_t step, int64_t n_waived) const {
    return step >= n_waived && step < min_len;
  }
  // --max-len-a, --max-len-b: the output has its longest length.
  static bool has_to_end(int64_t step, int64_t max_len) { return step >= max_len; }

  // Appends the tokens that would repeat an n-gram behind a context.
  void find_repeats(const std::vector<int64_t> &context, std::vector<int64_t> &found) const;
};

// Where outputs may not end, and where they have to end, at n states.
class EndLimits {
 public:
  // Nothing is restricted.
  void clear(int64_t n);
  // A state gives the token of a step of this sentence's output.
  void set(int64_t state, const Rules &rules, int64_t step, const Request &sentence);

  bool may_not_end(int64_t state) const { return no_end[state]; }
  bool has_to_end(int64_t state) const { return only_end[state]; }
  // The flags of the states from `first` on, as kernels read them; null: none is set.
  const uint8_t *no_end_or_null(int64_t first = 0) const {
    return some_no_end ? no_end.data() + first : nullptr;
  }
  const uint8_t *only_end_or_null(int64_t first = 0) const {
    return some_only_end ? only_end.data() + first : nullptr;
  }

 private:
  std::vector<uint8_t> no_end, only_end;
  bool some_no_end = false, some_only_end = false;
};

// The restrictions of n states, from which the next tokens are chosen.
struct Limits {
  EndLimits ends;
  // Tokens that are not possible, for each state; empty: none are.
  std::vector<std::vector<int64_t>> forbidden;
  // [n], of beams: the one token that is possible, or ANY.
  std::vector<int64_t> only;
  bool some_forbidden = false, some_only = false;

  static constexpr int64_t ANY = -1;

  void clear(int64_t n);
  // Forbids tokens that would repeat an n-gram of the context.
  void forbid_repeats(int64_t state, const Rules &rules, const std::vector<int64_t> &context);
};

// Fewer scores are looked through by one thread.
constexpr int64_t FEW_SCORES = 100'000;

// What the models answer at n states.
struct Answers {
  std::vector<int64_t> tokens;  // [n], the best tokens
  std::vector<float> scores;    // [n], their log-probabilities
  std::vector<int64_t> asked;   // [n], tokens whose log-probabilities are wanted, or -1
  std::vector<float> asked_scores;  // [n]; -infinity: not possible
  std::vector<float> nth_best;      // [n], of the n best tokens the last one's
};

// Rows side by side, beam by beam, from which beams are extended.
struct BeamRows {
  int64_t n_beams, n_rows;
  const int64_t *starts;  // [n_beams + 1], where each beam's rows begin, and the end
  const float *totals;    // [n_rows], the log-probabilities of what the rows hold
};

// The best extensions of beams by one token, best first, n of each beam. A total of -infinity: the
// beam has no more.
struct Extensions {
  int64_t n = 0;
  std::vector<float> totals;
  std::vector<int64_t> tokens, rows;
};

// Distributions over the vocabulary that are in memory at once: 16 MiB for 32,000 types. More of
// them leave the processor's cache between product, softmax and search.
constexpr int64_t MOST_DISTRIBUTIONS = 128;

// Chooses p_1's best tokens: in one pass over the output layer for one model, and from the mean of
// the models' probabilities for several.
class Chooser {
 public:
  Chooser(const Rules &rules, const OutputLayers &outputs, int64_t n_best)
      : rules(rules), outputs(outputs), n_best(n_best) {}

  // Answers at the n states of the last step, and about the tokens in answers.asked.
  void choose(Decoder &decoder, int64_t n, const Limits &limits, Answers &answers);

  // The best extensions of beams, whose rows are the states of the last step.
  //   n_per_row: the most extensions of a beam that continue the same row
  void extend(Decoder &decoder, const BeamRows &beams, int64_t n_per_row, const Limits &limits,
              Extensions &extensions);

  // What all models' outputs stand for.
  const OutputLayer &layer() const { return outputs.of_model(0); }
  // Log-probabilities [n, n_outputs] at the states of the last step from `first` on; -infinity: not
  // possible. They lie in memory that the next call uses again.
  const float *log_probs(Decoder &decoder, int64_t first, int64_t n, const Limits &limits);

 private:
  // The inputs of a model's output layer at states from `first` on.
  const float *states_of(Decoder &decoder, int64_t member, int64_t first, int64_t n);
  // Each model's logits [n, n_outputs] at these states, divided by the temperature.
  std::vector<const float *> logits_of(Decoder &decoder, int64_t first, int64_t n);
  // The choice among these logits, under the rules and limits.
  TopK choice(const Decoder &decoder, const std::vector<const float *> &logits, int64_t first,
              int64_t n, const Limits &limits);
  void choose_at_once(Decoder &decoder, int64_t n, const Limits &limits, bool asks,
                      Answers &answers);
  void choose_from_logits(Decoder &decoder, int64_t first, int64_t n, const Limits &limits,
                          bool asks, Answers &answers);
  // Makes outputs impossible that the rules or limits forbid at a state.
  void restrict(int64_t state, const Limits &limits, float *log_probs) const;
  float log_prob(const std::vector<const float *> &logits, int64_t output) const;
  float asked_score(const std::vector<const float *> &logits, int64_t state, const Limits &limits,
                    const Answers &answers) const;

  const Rules &rules;
  const OutputLayers &outputs;
  int64_t n_best;
  Buffer<float> states, scratch, logits, best_scores;
  Buffer<int64_t> forbidden, only, best_outputs;
};

}  // namespace fastdec
