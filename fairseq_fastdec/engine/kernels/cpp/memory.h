// Memory for numbers that the engine overwrites: it grows, and is not initialised.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace fastdec {

// Room for n numbers, aligned to a cache line. Growing discards the contents.
template <typename T>
class Buffer {
 public:
  T *data() { return memory.get(); }
  const T *data() const { return memory.get(); }
  int64_t size() const { return n; }
  T &operator[](int64_t at) { return memory.get()[at]; }
  const T &operator[](int64_t at) const { return memory.get()[at]; }

  // Makes room for at least n numbers; returns their address.
  T *reserve(int64_t n_needed) {
    if (n_needed > n) {
      // Growing by half keeps the number of allocations small while rows get longer.
      const int64_t n_new = std::max(n_needed, n + n / 2);
      memory.reset();  // first, so that only one of them is in memory
      memory.reset(allocate(n_new));
      n = n_new;
    }
    return memory.get();
  }

  // Like std::swap.
  void swap(Buffer &other) {
    std::swap(memory, other.memory);
    std::swap(n, other.n);
  }

 private:
  static constexpr size_t LINE = 64;

  struct Free {
    void operator()(T *memory) const { std::free(memory); }
  };

  static T *allocate(int64_t n) {
    const size_t bytes = (size_t(n) * sizeof(T) + LINE - 1) / LINE * LINE;
    void *const memory = std::aligned_alloc(LINE, std::max(bytes, LINE));
    if (!memory) throw std::bad_alloc();
    return static_cast<T *>(memory);
  }

  std::unique_ptr<T, Free> memory;
  int64_t n = 0;
};

}  // namespace fastdec
