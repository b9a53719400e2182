// fairseq's rules for the next token, and the choice of the best token under these rules.

#pragma once

#include <vector>

#include "decoder.h"
#include "output_layers.h"
#include "request.h"

namespace fastdec {

// The options of fairseq that restrict tokens. A step is the position of an output token, from 0.
struct Rules {
  int64_t eos = 0, pad = 0, unk = 0;
  std::vector<int64_t> never;  // types that are never generated, including padding
  float unk_penalty = 0, temperature = 1;
  float lm_weight = 0;  // of a language model's log-probabilities; 0 without one
  double lenpen = 1;  // 0 with --unnormalized
  int64_t min_len = 1;
  int64_t no_repeat_ngram = 0;  // the size of n-grams that must not repeat; 0: no such rule

  // --min-len is not reached. fairseq does not apply it to the positions of a prefix.
  bool may_not_end(int64_t step, int64_t n_waived) const {
    return step >= n_waived && step < min_len;
  }
  // The output has reached the maximum length of --max-len-a and --max-len-b.
  static bool has_to_end(int64_t step, int64_t max_len) { return step >= max_len; }

  // Appends the tokens that would repeat an n-gram of the context.
  void find_repeats(const std::vector<int64_t> &context, std::vector<int64_t> &found) const;
};

// Whether outputs may not end, or have to end, at each of n states.
class EndLimits {
 public:
  // Removes all restrictions.
  void clear(int64_t n);
  // Sets the restrictions of a state that predicts this step of a sentence.
  void set(int64_t state, const Rules &rules, int64_t step, const Request &sentence);
  // Sets that an output may not end at a state.
  void forbid_end(int64_t state) { no_end[state] = 1, some_no_end = true; }

  bool has_to_end(int64_t state) const { return only_end[state]; }
  // The flags of the states from `first` on, for kernels; null if no flag is set.
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

// Consecutive states of a sentence, and its output layers; null: those of all types.
struct StateGroup {
  int64_t first, n;
  const Outputs *outputs;

  int64_t end() const { return first + n; }
};

// The restrictions of the next tokens at n states.
struct Limits {
  EndLimits ends;
  // Tokens that are not possible at each state.
  std::vector<std::vector<int64_t>> forbidden;
  // [n], for beams: the only possible token, or ANY.
  std::vector<int64_t> only;
  // Tokens of constraints that extend each state, besides its best ones; for beams.
  std::vector<std::vector<int64_t>> wanted;
  bool some_forbidden = false, some_only = false, some_wanted = false;
  // [n], for beams: whether the only possible token has the score 0.
  std::vector<uint8_t> is_free;
  // [n], for beams: whether EOS is possible with the score 0.
  std::vector<uint8_t> end_is_free;
  // The n states, one after the other.
  std::vector<StateGroup> groups;

  static constexpr int64_t ANY = -1;

  // Whether `only` has the only possible token.
  bool is_forced(int64_t state) const { return only[state] != ANY && !ends.has_to_end(state); }
  void clear(int64_t n);
  // The next n states are those of a sentence. Has to be called for all states, in order.
  void add_states(int64_t n, const Request &sentence);
  // The group of a state.
  const StateGroup &group_of(int64_t state) const;
  // Forbids the tokens that would repeat an n-gram of the context, or complete a phrase that the
  // sentence may not contain.
  void forbid(int64_t state, const Rules &rules, const Request &sentence,
              const std::vector<int64_t> &context);
};

// Up to this number of best tokens, they are chosen while a state's logits are in the cache. More
// are chosen from stored logits, where few are looked at twice: those that can still be among the
// best extensions of their beam.
constexpr int64_t MOST_AT_ONCE = 16;

// The predictions of the models at n states.
struct Answers {
  std::vector<int64_t> tokens;  // [n], the best tokens
  std::vector<float> scores;    // [n], their log-probabilities
  std::vector<int64_t> asked;   // [n], tokens whose log-probabilities are needed, or -1
  std::vector<float> asked_scores;  // [n]; -infinity: not possible
  std::vector<float> nth_best;      // [n], the log-probability of the n-th best token
};

// The rows of beams, beam by beam.
struct BeamRows {
  int64_t n_beams, n_rows;
  const int64_t *starts;  // [n_beams + 1], the first row of each beam, and the end
  const float *totals;    // [n_rows], the log-probabilities of the rows
};

// An extension of a row by one token.
struct RowExtension {
  float total;
  int64_t token, row;
};

// The n best extensions of each beam by one token, best first. A total of -infinity stands for a
// missing extension.
struct Extensions {
  int64_t n = 0;
  std::vector<float> totals;
  std::vector<int64_t> tokens, rows;
  // Of each beam, for rows with wanted tokens: the best extension, and those by wanted tokens. Some
  // can be among the n best too.
  std::vector<std::vector<RowExtension>> more;
  // Whether, instead of all of these, `more` is to have the n best extensions of each row.
  bool of_rows = false;
};

// The number of stored distributions over the vocabulary: 16 MiB for 32,000 types. More of them
// would not stay in the processor's cache between product, softmax and choice.
constexpr int64_t MOST_DISTRIBUTIONS = 128;

// Chooses the best tokens of p_1. For one model, output layer and choice are one pass, unless many
// tokens are wanted; for an ensemble, tokens are chosen by the mean of the models' probabilities. To
// its logarithm, that of a language model's probability is added, weighted.
class Chooser {
 public:
  Chooser(const Rules &rules, const OutputLayers &outputs, int64_t n_best)
      : rules(rules), outputs(outputs), n_best(n_best) {}

  // Computes the answers at the n states of the last step, including the scores of answers.asked.
  void choose(Decoder &decoder, int64_t n, const Limits &limits, Answers &answers);

  // Computes the best extensions of beams, whose rows are the states of the last step.
  //   max_candidates: the maximum number of a beam's extensions that continue the same row
  void extend(Decoder &decoder, const BeamRows &beams, int64_t max_candidates,
              const Limits &limits, Extensions &extensions);

  // The output layer of a group, which has the same outputs in all models.
  const OutputLayer &layer_of(const StateGroup &group) const { return outputs_of(group)[0]; }
  // Log-probabilities [n, n_outputs] at states of the last step, all of one group; -infinity: not
  // possible. The next call overwrites them.
  const float *log_probs(Decoder &decoder, int64_t first, int64_t n, const Limits &limits);

 private:
  // The asked tokens of all states, see Choice.
  struct Asked {
    const int64_t *tokens;
    int64_t n;
    float *scores;
  };

  // The inputs of a model's output layer at the states from `first` on.
  const float *states_of(Decoder &decoder, int64_t member, int64_t first, int64_t n);
  const Outputs &outputs_of(const StateGroup &group) const {
    return group.outputs ? *group.outputs : outputs.of_models();
  }
  // Runs a task at the states from `first` on, after the products with these output layers.
  void run_from_logits(Decoder &decoder, const Outputs &layers, int64_t first, TopK &task);
  // Ranks the n_ranked best tokens of the n states of the last step: `scores` and `tokens` are
  // [n, n_ranked], best first; a score of -infinity stands for a missing token.
  //   beams: tokens that are not among the n_best extensions of these beams may be missing
  void rank(Decoder &decoder, int64_t n, const Limits &limits,
            const Asked &asked, const BeamRows *beams = nullptr);
  // Sets the rules, limits and results of a choice for n states from `first` on, all of one group.
  void prepare(Choice &choice, const StateGroup &group, int64_t first, int64_t n,
               const Limits &limits, const Asked &asked);
  // Lays out the forbidden tokens of n states from `first` on.
  void forbid(const Limits &limits, int64_t first, int64_t n);
  // The tokens of beams that are forced or wanted.
  Asked asked_of_beams(const BeamRows &beams, const Limits &limits);
  // The best extension of each row with wanted tokens, and those by wanted tokens.
  std::vector<RowExtension> more_of(const BeamRows &beams, int64_t beam, const Limits &limits,
                                    const Asked &asked) const;
  // The best extensions of all rows of a beam.
  std::vector<RowExtension> of_rows_of(const BeamRows &beams, int64_t beam) const;
  // Gives EOS the score 0 in a row.
  void free_end(int64_t row);
  // Merges the tokens of a beam's rows into its best extensions.
  void merge(const BeamRows &beams, int64_t beam, Extensions &extensions) const;

  const Rules &rules;
  const OutputLayers &outputs;
  int64_t n_best, n_ranked = 0;
  int64_t first_forbidden = 0, n_forbidden = 0;
  std::vector<BestTokens> choices;
  Buffer<float> states, scratch, logits, scores, asked_scores;
  Buffer<int64_t> forbidden, tokens, asked_tokens;
  std::vector<int64_t> beam_of_row;
};

}  // namespace fastdec
