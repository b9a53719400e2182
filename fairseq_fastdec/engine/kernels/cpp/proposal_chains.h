// Chains of proposals of sequential heads; all steps run in one call's threads.

#pragma once

#include <algorithm>

#include "assertions.h"
#include "multiply_adds.h"
#include "threads.h"
#include "workspace.h"

namespace fastdec {
namespace {

// The state of the chains. Threads are started once, not for each step.
struct ChainSteps {
  ProposalChains &task;
  const float *features;  // the input of the first step
  // The number of threads for a step, and for the choice of its tokens.
  int64_t n_proposing, n_choosing;
  mutable Barrier barrier;
  mutable int64_t n;  // the number of steps taken
  mutable bool goes_on;
};

// Sets the inputs of the next step.
INLINE void begin_step(const ChainSteps &chains) {
  const ProposalChains &task = chains.task;
  SequentialHeads &heads = *task.heads;
  BestTokens &best = *task.best;
  const int64_t n = chains.n, n_rows = heads.step.n_rows;
  heads.step.tokens = n ? best.tokens : task.next_tokens;
  heads.from_features = n ? nullptr : chains.features;
  best.no_end = task.no_end ? task.no_end + n * n_rows : nullptr;
  best.only_end = task.only_end ? task.only_end + n * n_rows : nullptr;
  assert_fits(heads);
  count_multiply_adds(heads);
  count_multiply_adds(best);
}

// Processes the choice of a step, and begins the next one if the chains continue.
INLINE void end_step(const ChainSteps &chains) {
  const ProposalChains &task = chains.task;
  chains.goes_on = prolong_chains(task, *task.best, chains.n++) && chains.n < task.n_steps;
  if (chains.goes_on) begin_step(chains);
}

// Runs steps while the chains continue; begin_step has been called for the first one.
template <void (*RUN_HEADS)(const SequentialHeads &, const ThreadSlice &),
          void (*CHOOSE)(const BestTokens &, const ThreadSlice &)>
void take_steps(const ChainSteps &chains, const ThreadSlice &slice) {
  const SequentialHeads &heads = *chains.task.heads;
  const BestTokens &best = *chains.task.best;
  const ThreadSlice proposing = {slice.number, std::min(chains.n_proposing, slice.count)};
  const ThreadSlice choosing = {slice.number, std::min(chains.n_choosing, slice.count)};
  while (chains.goes_on) {
    if (proposing.number < proposing.count) RUN_HEADS(heads, proposing);
    wait_at(chains.barrier, slice);
    if (choosing.number < choosing.count) CHOOSE(best, choosing);
    // A single row is chosen by the first thread.
    if (best.n > 1) wait_at(chains.barrier, slice);
    if (slice.number == 0) end_step(chains);
    wait_at(chains.barrier, slice);
  }
}

}  // namespace
}  // namespace fastdec
