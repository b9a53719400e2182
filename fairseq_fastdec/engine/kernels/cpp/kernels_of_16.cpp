// The kernels for vectors of 16 floats.

#include "kernels_of_width.h"

#if defined(__x86_64__)
KERNELS_FOR(sixteen, Vec16, TARGET_AVX512)
#endif
