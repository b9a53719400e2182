// The kernels for vectors of 4 floats.

#include "kernels_of_width.h"

namespace fastdec {
KERNELS_FOR(four, Vec4, )
}  // namespace fastdec
