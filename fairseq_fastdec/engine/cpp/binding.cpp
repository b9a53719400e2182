// The Python module of the engine.

#include "../kernels/cpp/kernels.h"
#include "bind.h"

PYBIND11_MODULE(_engine, module) {
  using namespace fastdec;
  module.doc() = "The engine: prepared models, and searches over them. See engine/cpp.";
  module.attr("BLOCK") = BLOCK, module.attr("PAIR") = PAIR, module.attr("GROUP") = GROUP;
  module.def("n_multiply_adds", &n_multiply_adds);
  module.def("set_width", &set_width, py::arg("widest"));
  module.def("measure_costs", &measure_costs, py::arg("n_threads"));
  bind_models(module);
  bind_service(module);  // before searches, whose functions have its classes as arguments
  bind_searches(module);
}
