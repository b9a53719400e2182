// Phrases that an output has to contain (Post and Vilar 2018; Hu et al. 2019), as with fairseq's
// --constraints.

#pragma once

#include <cstdint>
#include <vector>

namespace fastdec {

using Phrase = std::vector<int64_t>;

// How much of its constraints an output contains.
struct Progress {
  int64_t stage = 0, node = 0;   // the phrases that the output may be in, and its place in them
  std::vector<int64_t> n_passed;  // by node of the stage: the contained phrases that pass through it
  int64_t n_contained = 0;       // the number of tokens of contained phrases
};

// The phrases of one sentence. Those of a stage are in any order, and the stages follow each other.
class Constraints {
 public:
  // ordered: whether the output contains the phrases in this order
  Constraints(const std::vector<Phrase> &phrases, bool ordered);

  // The number of tokens of all phrases.
  int64_t n_tokens() const { return n_all; }
  Progress begin() const;
  // The progress after one more token. An output that leaves a phrase begins again.
  Progress after(const Progress &progress, int64_t token) const;
  bool are_met(const Progress &progress) const { return settled(progress).n_contained == n_all; }
  // The bank of an output (Post and Vilar 2018): the number of tokens of constraints that it has.
  int64_t bank(const Progress &progress) const {
    return progress.n_contained + node_of(progress).depth;
  }
  // The tokens that begin or continue a phrase, whether or not it is missing, as in fairseq.
  std::vector<int64_t> next_tokens(const Progress &progress) const;
  // The token that brings an output of `step` tokens closer to its constraints, if any other could
  // prevent it from containing them in max_len tokens; otherwise -1.
  int64_t due_token(const Progress &progress, int64_t step, int64_t max_len) const;

 private:
  // A node of a trie.
  struct Node {
    int64_t token, parent, depth;
    int64_t n_passing = 0, n_ending = 0;  // the number of phrases through it, and that end at it
    std::vector<int64_t> children = {};
  };
  using Trie = std::vector<Node>;  // the first node is the root

  static void add(const Phrase &phrase, Trie &trie);
  const Node &node_of(const Progress &progress) const {
    return stages[progress.stage][progress.node];
  }
  // The child of a node through which a missing phrase passes, for a token or, with -1, for any.
  int64_t child_of(const Progress &progress, int64_t node, int64_t token) const;
  // The progress if the output leaves the phrase that it is in: the longest phrase that it has just
  // completed is contained.
  Progress settled(const Progress &progress) const;

  std::vector<Trie> stages;
  int64_t n_all = 0;
};

}  // namespace fastdec
