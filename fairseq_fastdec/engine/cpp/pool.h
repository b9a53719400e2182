// The engine's threads, which all calls of the process share.

#pragma once

#include "../kernels/cpp/structures.h"

namespace fastdec {

// Threads that call a task's function. While one call uses them, other calls run in their caller's
// thread only: results do not depend on the number of threads, and more threads than cores would
// wait for each other. Idle threads spin for a while, then sleep.
Threads *pool_threads();

// Marks the current thread as decoding during its lifetime. Decoding threads share the cores.
class Decoding {
 public:
  Decoding();
  ~Decoding();
  Decoding(const Decoding &) = delete;
  Decoding &operator=(const Decoding &) = delete;

  // This thread's share of n threads, at least 1.
  static int64_t share(int64_t n);
};

}  // namespace fastdec
