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
  DraftChains &task;
  const float *features;  // the input of the first step
  // The number of threads for a step, and for the choice of its tokens.
  int64_t n_drafting, n_choosing;
  mutable Barrier barrier;
  mutable int64_t n;  // the number of steps taken
  mutable bool goes_on;
};

// Sets the inputs of the next step.
INLINE void begin_step(const ChainSteps &chains) {
  const DraftChains &task = chains.task;
  Draft &draft = *task.draft;
  BestTokens &best = *task.best;
  const int64_t n = chains.n, n_rows = draft.step.n_rows;
  draft.step.tokens = n ? best.tokens : task.next_tokens;
  draft.from_features = n ? nullptr : chains.features;
  best.no_end = task.no_end ? task.no_end + n * n_rows : nullptr;
  best.only_end = task.only_end ? task.only_end + n * n_rows : nullptr;
  assert_fits(draft);
  count_multiply_adds(draft);
  count_multiply_adds(best);
}

// Processes the choice of a step, and begins the next one if the chains continue.
INLINE void end_step(const ChainSteps &chains) {
  const DraftChains &task = chains.task;
  chains.goes_on = prolong_chains(task, *task.best, chains.n++) && chains.n < task.n_steps;
  if (chains.goes_on) begin_step(chains);
}

// Runs steps while the chains continue; begin_step has been called for the first one.
template <void (*RUN_DRAFT)(const Draft &, const ThreadSlice &),
          void (*CHOOSE)(const BestTokens &, const ThreadSlice &)>
void take_steps(const ChainSteps &chains, const ThreadSlice &slice) {
  const Draft &draft = *chains.task.draft;
  const BestTokens &best = *chains.task.best;
  const ThreadSlice drafting = {slice.number, std::min(chains.n_drafting, slice.count)};
  const ThreadSlice choosing = {slice.number, std::min(chains.n_choosing, slice.count)};
  while (chains.goes_on) {
    if (drafting.number < drafting.count) RUN_DRAFT(draft, drafting);
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
