// What the files of the Python interface share. All input from Python is checked in them, and only
// there. They are headers of binding.cpp, since each file that includes pybind11 takes long to
// compile.

#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

namespace fastdec {

namespace py = pybind11;

// Contiguous arrays of exactly this type.
template <typename T>
using Array = py::array_t<T, py::array::c_style>;

inline void require(bool is_right, const std::string &what) {
  if (!is_right) throw py::value_error(what);
}

// Keeps objects alive from any thread.
using Owners = std::vector<std::shared_ptr<const void>>;

// A part of a model, and the owners of its memory.
template <typename Part>
struct Owned {
  Part part = {};
  Owners owners;
};

}  // namespace fastdec
