// The engine's threads, which all calls of the process share.

#pragma once

#include <cstdint>

namespace fastdec {

// Calls function(data) in n threads including the caller's. While one call uses them, other calls
// run in their caller's thread only: results do not depend on the number of threads, and more
// threads than cores would wait for each other. Idle threads spin for a while, then sleep.
void run_in_pool(void (*function)(void *), void *data, unsigned n);
// The number of the current thread in its call, and the number of the call's threads.
int number_in_pool();
int count_in_pool();

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
