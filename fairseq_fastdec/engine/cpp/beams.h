// The beams of sentences that are being decoded (Yang et al. 2020), and the rules by which candidates
// become final, wait, are extended or are pruned.

#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "pruning.h"
#include "sampling.h"

namespace fastdec {

struct BeamOptions : Pruning {
  int64_t beam = 1;  // K, the maximum number of entries of a beam
  // "fairseq": candidates that have ended are final at once, and others take their places; a sentence
  // is done with K of them. "paper": they stay on the beam until no unfinished candidate is better
  // (appendix A.1). "hf": as "fairseq", but better ones replace the worst of K, until the best
  // unfinished candidate is worse than all of them at its length. "hf_early": as "hf", but a
  // sentence is done with K of them. Both are those of transformers.
  std::string finalize = "fairseq";
  // Outputs have as many tokens as their sources: EOS is not possible before, and then has the score
  // 0, as in fairseq. fairseq 0.12.3 counts the EOS of sources, but not that of outputs.
  bool match_source_len = false, counts_source_end = false;
  // The number of groups of candidates, each of which avoids the tokens of earlier ones; 0: none. A
  // score is reduced by the strength for each candidate with the same token, and, as in fairseq
  // 0.12.3, for each token that the groups have had in common.
  int64_t diverse_beam_groups = 0;
  double diverse_beam_strength = 0;
  bool cumulative_diversity = false;
  // Samples do not compete: they have no order, and none is pruned.
  bool sampling = false;
  Sampling draws;

  template <typename Visit>
  void each(Visit &&visit) {
    Pruning::each(visit);
    visit("beam", beam), visit("finalize", finalize);
    visit("match_source_len", match_source_len), visit("counts_source_end", counts_source_end);
    visit("diverse_beam_groups", diverse_beam_groups);
    visit("diverse_beam_strength", diverse_beam_strength);
    visit("cumulative_diversity", cumulative_diversity);
    visit("sampling", sampling), visit("sampling_topk", draws.topk);
    visit("sampling_topp", draws.topp);
  }

  bool is_papers() const { return finalize == "paper"; }
  bool is_hf() const { return finalize == "hf" || finalize == "hf_early"; }
  // Whether a sentence may go on with K candidates that have ended.
  bool improves() const { return finalize == "hf"; }
  int64_t n_candidates() const {
    return is_papers() || sampling || cumulative_diversity ? beam : 2 * beam;
  }
};

// A partial translation: a token that continues another entry of its beam.
struct BeamEntry {
  int64_t token, parent;  // parent: the index of the continued entry; -1 for the first one
  float score;            // of the partial translation
};

// A candidate that has ended: an entry, followed by EOS.
struct EndedCandidate {
  float score;
  int64_t entry;
  float normalized = 0;  // only for "hf" and "hf_early"
};

// A candidate to continue an entry.
struct Extension {
  float score;
  int64_t token, entry, row;  // row: the entry's row in the step
};

// The beam of one sentence.
struct Beam {
  std::shared_ptr<const Constraints> constraints;  // null: none
  std::vector<Progress> progress;                  // of each expanded entry, with constraints
  std::vector<BeamEntry> entries;  // of all steps; those from `first` on are expanded next
  int64_t first = 0, length = 0;   // length: tokens of each expanded entry
  std::vector<EndedCandidate> finals, waiting;  // waiting ones best first
  float best_final = -INFINITY;
  std::vector<Extension> children;  // the candidates of a step that are extended
  // [G, G], with groups: the number of tokens that two of them have had in common.
  std::vector<int64_t> overlap;
  // [entries that have been expanded, n], to choose their successors; see Hypothesis. Entries are
  // expanded in their order.
  std::vector<float> attention;
  int64_t steps = 0, expansions = 0;

  int64_t width() const { return int64_t(entries.size()) - first; }
  void finish(const Extension &candidate) {
    finals.push_back({candidate.score, candidate.entry});
    best_final = std::max(best_final, candidate.score);
  }
};

// A beam has a slot while its sentence is being decoded. A step expands the beams in focus, whose
// rows are consecutive, in the order of the entries.
class Beams {
 public:
  Beams(const BeamOptions &options, const Rules &rules)
      : options(options), eos(rules.eos), lenpen(rules.lenpen) {}

  // Creates a beam with one entry, the token before the output; returns its slot.
  int64_t begin(int64_t bos, std::shared_ptr<const Constraints> constraints);
  // Frees a slot.
  void end(int64_t slot) { free_slots.push_back(slot); }

  const Beam &operator[](int64_t slot) const { return beams[slot]; }
  std::vector<float> &attention_of(int64_t slot) { return beams[slot].attention; }

  // Sets the beams that are expanded next.
  void focus(const std::vector<int64_t> &slots);
  BeamRows rows() const {
    return {int64_t(in_focus.size()), int64_t(totals.size()), starts.data(), totals.data()};
  }
  const int64_t *next_tokens() const { return fed_tokens.data(); }
  int64_t slot_of(int64_t row) const { return row_slots[row]; }
  // The token before the output of a row, and the output so far.
  std::vector<int64_t> context(int64_t row) const;
  // Sets what the constraints of a row in focus require of its next token. Returns whether only one
  // token is possible.
  bool want(int64_t row, const Request &sentence, Limits &limits) const;

  // Finalizes, keeps or prunes the candidates of the beams in focus.
  void judge(const Extensions &candidates);
  // Whether the sentence of a beam in focus is done.
  bool is_done(int64_t beam) const;
  // Replaces the beams in focus at these places by their extended candidates.
  //   origins: the row in focus that each new row continues, beam by beam
  void extend(const std::vector<int64_t> &places, std::vector<int64_t> &origins);
  // The hypotheses of a beam that is done; if there are none, its first entry followed by EOS.
  std::vector<Hypothesis> hypotheses(int64_t slot) const;

 private:
  // The candidates of a beam in focus, best first; for equal scores waiting ones come last.
  std::vector<Extension> candidates_of(int64_t beam, const Extensions &found) const;
  // The candidates of a beam in focus with constraints, and these further ones: those that rank
  // first in their bank, then second, and so on (Post and Vilar 2018, section 3).
  std::vector<Extension> allocated(int64_t beam, std::vector<Extension> candidates,
                                   const std::vector<RowExtension> &more) const;
  // The best extensions of each group of a beam in focus: the first of all groups, the second, and so
  // on. An entry belongs to the group of its place on the beam (Vijayakumar et al. 2018).
  std::vector<Extension> of_groups(int64_t beam, const std::vector<RowExtension> &found);
  // The best extensions of a group, after those of earlier ones.
  std::vector<Extension> of_group(int64_t beam, const std::vector<RowExtension> &found,
                                  const std::vector<std::vector<Extension>> &earlier) const;
  // fairseq's rule for groups: candidates grow in their order. With cumulative diversity there are no
  // others in place of those that have ended, which keep the last places and are extended beyond EOS.
  void judge_as_diverse(Beam &beam, const std::vector<Extension> &candidates) const;
  // fairseq's rule: candidates that end are final at once if they are among the best K.
  void judge_as_fairseq(Beam &beam, const std::vector<Extension> &candidates) const;
  // The rule of transformers: like fairseq's, but the best K of all that end are kept.
  void judge_as_hf(Beam &beam, const std::vector<Extension> &candidates) const;
  // A score that is divided by a length to the power of --lenpen.
  float normalized(float score, int64_t length) const;
  // The paper's rule (appendix A.1): candidates that have ended are final once they are the best;
  // others wait.
  void judge_as_paper(Beam &beam, const std::vector<Extension> &candidates) const;
  // The worst score of a candidate that is not pruned (section 4).
  float least_score(const Beam &beam, const std::vector<Extension> &candidates) const;
  bool has_final_room(const Beam &beam) const {
    return int64_t(beam.finals.size()) < options.beam;
  }
  Hypothesis hypothesis(const Beam &beam, const EndedCandidate &ended) const;

  const BeamOptions options;
  const int64_t eos;
  const double lenpen;
  std::vector<Beam> beams;  // by slot
  std::vector<int64_t> free_slots;
  // By beam in focus; `starts` has the first row of each, and the number of rows.
  std::vector<int64_t> in_focus, starts;
  // The progress of an expanded entry.
  const Progress &progress_of(const Beam &beam, int64_t entry) const {
    return beam.progress[entry - beam.first];
  }
  // By row.
  std::vector<int64_t> row_slots, row_entries, fed_tokens;
  std::vector<float> totals;
};

}  // namespace fastdec
