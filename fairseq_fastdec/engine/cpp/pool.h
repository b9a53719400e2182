// The engine's own threads, which all calls of the process share.

#pragma once

#include "../kernels/cpp/structures.h"

namespace fastdec {

// Threads that call a task's function. While one call has them, another runs in its caller's thread
// alone: results do not depend on the number of threads, and more threads than cores wait for each
// other. Idle threads spin for a while, then sleep.
Threads *pool_threads();

// While it exists, its thread is decoding. Cores are shared among all that are.
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
