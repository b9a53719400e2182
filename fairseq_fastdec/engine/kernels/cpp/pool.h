// The engine's threads, which all calls of the process share.

#pragma once

#include <cstdint>

namespace fastdec {

// Calls function(data, number, n) in n threads, numbered from 0, the caller's. Results do not depend
// on the number. Idle threads spin for a while, then sleep.
//   exactly: whether there must be n threads. Otherwise there is one while another call uses the
//     threads, since more threads than cores would wait for each other, and fewer than n while
//     other programs use some of the cores.
void run_in_pool(void (*function)(void *data, int number, int n), void *data, unsigned n,
                 bool exactly = false);

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
