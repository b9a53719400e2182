// The kernels for vectors of 8 floats.

#include "kernels_of_width.h"

#if defined(__x86_64__)
KERNELS_FOR(eight, Vec8, TARGET_AVX2)
#endif
