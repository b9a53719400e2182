#include "pool.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "free_cores.h"
#include "processor.h"

namespace fastdec {

namespace {

// Spins before a thread sleeps: longer than the time between two calls of a decoding step, since
// waking a thread takes as long as a step of a small network.
constexpr int SPINS = 50000;

// An exclusive bound of the number of threads.
constexpr uint64_t MOST_THREADS = 1 << 16;

void spin(int turn) {
  pause_briefly();
  // Another thread may need this core, possibly the one that is waited for.
  if (turn % 1024 == 1023) std::this_thread::yield();
}

int64_t nanoseconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

using Function = void (*)(void *data, int number, int n);

class Pool {
 public:
  void run(Function function, void *data, unsigned n, bool exactly) {
    if (n < 2 || n >= MOST_THREADS) return function(data, 0, 1);
    std::unique_lock<std::mutex> turn(in_use, std::defer_lock);
    if (exactly)
      turn.lock();
    else if (!turn.try_lock())
      return function(data, 0, 1);
    const int64_t start = nanoseconds(CLOCK_MONOTONIC);
    if (!exactly) n = free_cores.limit(n, start);
    job_function = function, job_data = data, lost = 0;
    if (n > 1) wake_workers(n);
    do_job(0, int(n));
    for (int turns = 0; n_left.load(); ++turns) spin(turns);
    free_cores.learn(n, start, nanoseconds(CLOCK_MONOTONIC), lost);
  }

 private:
  void wake_workers(unsigned n) {
    for (; n_workers < n - 1; ++n_workers)
      std::thread(&Pool::work, this, int(n_workers) + 1).detach();
    n_left.store(int(n) - 1);
    const uint64_t number_of_job = state.load() / MOST_THREADS + 1;
    state.store(number_of_job * MOST_THREADS + n);
    if (n_sleeping.load()) {
      const std::lock_guard<std::mutex> lock(asleep);
      wake.notify_all();
    }
  }

  void do_job(int number, int n) {
    if (!free_cores.is_watched()) return job_function(job_data, number, n);
    const auto without_core = [] {
      return nanoseconds(CLOCK_MONOTONIC) - nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    };
    const int64_t before = without_core();
    job_function(job_data, number, n);
    lost += without_core() - before;
  }

  void work(int number) {
    uint64_t seen = 0;
    while (true) {
      wait_for_news(seen);
      seen = state.load();
      const int n = int(seen % MOST_THREADS);
      if (number >= n) continue;
      do_job(number, n);
      n_left.fetch_sub(1);
    }
  }

  void wait_for_news(uint64_t seen) {
    for (int turns = 0; turns < SPINS; ++turns) {
      if (state.load() != seen) return;
      spin(turns);
    }
    std::unique_lock<std::mutex> lock(asleep);
    n_sleeping.fetch_add(1);
    wake.wait(lock, [&] { return state.load() != seen; });
    n_sleeping.fetch_sub(1);
  }

  std::mutex in_use;    // held by a call
  FreeCores free_cores;
  unsigned n_workers = 0;
  Function job_function = nullptr;
  void *job_data = nullptr;
  // The number of the job and, in the lower bits, of its threads, so that workers read both at
  // once.
  std::atomic<uint64_t> state{0};
  std::atomic<int> n_left{0}, n_sleeping{0};
  std::atomic<int64_t> lost{0};  // see FreeCores::learn
  std::mutex asleep;
  std::condition_variable wake;
};

// Never destroyed: its threads may run until the process ends.
Pool *pool = new Pool;
std::atomic<int64_t> n_decoding{0};

// A forked process does not have the threads.
void forget_threads() {
  pool = new Pool;
  n_decoding = 0;
}

const int registered = pthread_atfork(nullptr, nullptr, forget_threads);

}  // namespace

void run_in_pool(Function function, void *data, unsigned n, bool exactly) {
  pool->run(function, data, n, exactly);
}

Decoding::Decoding() { ++n_decoding; }

Decoding::~Decoding() { --n_decoding; }

int64_t Decoding::share(int64_t n) {
  return std::max<int64_t>(n / std::max<int64_t>(n_decoding.load(std::memory_order_relaxed), 1), 1);
}

}  // namespace fastdec
