// Greedy decoding and blocks (Stern et al. 2018, sections 3 to 5).
//
// A block has a certain token, followed by proposals. p_1 verifies them, and the longest accepted
// prefix is kept. Without proposals this is greedy decoding.

#pragma once

#include <map>

#include "acceptance.h"
#include "proposers.h"
#include "given_drafts.h"
#include "proposal_times.h"
#include "one_hypothesis.h"

namespace fastdec {

struct BlockOptions {
  Acceptance acceptance;
  Proposals proposals;

  template <typename Visit>
  void each(Visit &&visit) {
    acceptance.each(visit);
    proposals.each(visit);
  }
};

class BlockSearch : public OneHypothesis {
 public:
  BlockSearch(Models models, Rules rules, BlockOptions options);

  bool verifies_drafts() const override { return !acceptance.asks(); }

 protected:
  void step() override;
  void propose() override;
  bool asks() const override { return acceptance.asks(); }
  bool keep(int64_t row) override;
  void joined(int64_t row) override;
  void left(int64_t row) override;

 private:
  // The number of tokens of a row's block that are accepted.
  int64_t accept(int64_t row) const;
  bool is_good(int64_t row, int64_t number) const;
  int64_t dim(int64_t member) const { return decoder.model(member).decoder.dim; }

  const Acceptance acceptance;
  std::unique_ptr<Proposer> proposer;
  GivenDrafts given;
  const bool decides_by_time;
  std::map<int64_t, ProposalTimes> times;  // by the number of threads
  bool proposes = true;    // the proposer proposes in the current step
  int64_t n_appended = 0;  // the number of tokens that the current step appended to the outputs
  States states;
};

}  // namespace fastdec
