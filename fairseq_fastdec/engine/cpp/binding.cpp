// The Python module of the engine.

#include "../kernels/cpp/kernels.h"
#include "bind_models.h"
#include "bind_searches.h"

PYBIND11_MODULE(_engine, module) {
  using namespace fastdec;
  module.doc() = "The engine: prepared models, and searches over them. See engine/cpp.";
  module.attr("BLOCK") = BLOCK, module.attr("PAIR") = PAIR, module.attr("GROUP") = GROUP;
  module.def("n_multiply_adds", &n_multiply_adds);
  module.def("instruction_sets", &instruction_sets);
  module.def("instruction_set_in_use", &instruction_set_in_use);
  module.def("use_instruction_set", &use_instruction_set, py::arg("name"));
  module.def("measure_costs", &measure_costs, py::arg("n_threads"));
  bind_models(module);
  bind_searches(module);
}
