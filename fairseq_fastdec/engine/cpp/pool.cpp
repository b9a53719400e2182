#include "pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fastdec {

namespace {

// Spins before a thread sleeps: longer than the time between two calls of a decoding step, since
// waking a thread takes as long as a step of a small model.
constexpr int SPINS = 50000;

// An exclusive bound of the number of threads.
constexpr uint64_t MOST_THREADS = 1 << 16;

thread_local int own_number = 0, own_count = 1;

void spin(int turn) {
#if defined(__x86_64__)
  _mm_pause();
#endif
  // Another thread may need this core, possibly the one that is waited for.
  if (turn % 1024 == 1023) sched_yield();
}

class Pool {
 public:
  void run(void (*function)(void *), void *data, unsigned n) {
    std::unique_lock<std::mutex> turn(in_use, std::defer_lock);
    if (n < 2 || n >= MOST_THREADS || own_count > 1 || !turn.try_lock()) {
      const int number = own_number, count = own_count;
      call(function, data, 0, 1);
      own_number = number, own_count = count;
      return;
    }
    for (; n_workers < n - 1; ++n_workers)
      std::thread(&Pool::work, this, int(n_workers) + 1).detach();
    job_function = function, job_data = data;
    n_left.store(int(n) - 1);
    const uint64_t number_of_job = state.load() / MOST_THREADS + 1;
    state.store(number_of_job * MOST_THREADS + n);
    if (n_sleeping.load()) {
      const std::lock_guard<std::mutex> lock(asleep);
      wake.notify_all();
    }
    call(function, data, 0, int(n));
    own_number = 0, own_count = 1;
    for (int turns = 0; n_left.load(); ++turns) spin(turns);
  }

 private:
  static void call(void (*function)(void *), void *data, int number, int count) {
    own_number = number, own_count = count;
    function(data);
  }

  void work(int number) {
    uint64_t seen = 0;
    while (true) {
      wait_for_news(seen);
      seen = state.load();
      const int count = int(seen % MOST_THREADS);
      if (number >= count) continue;
      call(job_function, job_data, number, count);
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
  unsigned n_workers = 0;
  void (*job_function)(void *) = nullptr;
  void *job_data = nullptr;
  // The number of the job and, in the lower bits, of its threads, so that workers read both at
  // once.
  std::atomic<uint64_t> state{0};
  std::atomic<int> n_left{0}, n_sleeping{0};
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
  own_number = 0, own_count = 1;
}

const int registered = pthread_atfork(nullptr, nullptr, forget_threads);

}  // namespace

void run_in_pool(void (*function)(void *), void *data, unsigned n) {
  pool->run(function, data, n);
}

int number_in_pool() { return own_number; }

int count_in_pool() { return own_count; }

Decoding::Decoding() { ++n_decoding; }

Decoding::~Decoding() { --n_decoding; }

int64_t Decoding::share(int64_t n) {
  return std::max<int64_t>(n / std::max<int64_t>(n_decoding.load(std::memory_order_relaxed), 1), 1);
}

}  // namespace fastdec
