// The kernels for vectors of 4 floats.

#include "kernels_of_width.h"

KERNELS_FOR(four, Vec4, )
