// The threads of a call: the division of work, and barriers.

#pragma once

#include <thread>

#include "pool.h"
#include "processor.h"
#include "structures.h"

namespace fastdec {

// One thread of a call. It works on the pieces `number`, `number + count`, ...
struct ThreadSlice {
  int64_t number, count;
};

namespace {

// A barrier: returns when all threads of the call have arrived.
INLINE void wait_at(Barrier &barrier, const ThreadSlice &slice) {
  if (slice.count == 1) return;
  const int64_t phase = barrier.phase.load(std::memory_order_acquire);
  if (barrier.arrived.fetch_add(1, std::memory_order_acq_rel) == slice.count - 1) {
    barrier.arrived.store(0, std::memory_order_relaxed);
    barrier.phase.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; barrier.phase.load(std::memory_order_acquire) == phase; ++spins) {
    pause_briefly();
    // Another thread may need this core, possibly the one that is waited for.
    if (spins > 200) std::this_thread::yield();
  }
}

template <typename Task, void (*DO)(const Task &, const ThreadSlice &)>
void do_slice(void *data, int number, int n_threads) {
  DO(*static_cast<const Task *>(data), {number, n_threads});
}

// Calls DO in n_threads threads.
template <typename Task, void (*DO)(const Task &, const ThreadSlice &)>
void in_threads(Task *task, int64_t n_threads) {
  if (n_threads == 1)
    DO(*task, {0, 1});
  else
    run_in_pool(do_slice<Task, DO>, task, n_threads);
}

// Calls DO in all threads of the task.
template <typename Task, void (*DO)(const Task &, const ThreadSlice &)>
void in_threads(Task *task) {
  in_threads<Task, DO>(task, task->n_threads);
}

}  // namespace
}  // namespace fastdec
