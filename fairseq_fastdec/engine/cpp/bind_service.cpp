// The Python interface of the service.

#include "bind_search.h"
#include "service.h"

namespace fastdec {

namespace {

// Deletes a service without the GIL: it waits for its threads, which can need the GIL to free
// Python objects.
struct WithoutGil {
  void operator()(Service *own) const {
    const py::gil_scoped_release released;
    delete own;
  }
};

using OwnedService = std::unique_ptr<Service, WithoutGil>;

OwnedService service(int64_t workers, int64_t capacity, int64_t threads, double max_wait,
                     bool takes_shortest, double longest_wait) {
  require(workers > 0 && capacity > 0 && threads > 0,
          "service: workers, capacity and threads must be at least 1");
  return OwnedService(new Service(
      ServiceOptions{workers, capacity, threads, max_wait, takes_shortest, longest_wait}));
}

}  // namespace

void bind_service(py::module_ &module) {
  py::class_<Mailbox, std::shared_ptr<Mailbox>>(module, "Mailbox")
      .def(py::init<>())
      .def("fileno", &Mailbox::fd)
      .def("take", [](Mailbox &own) { return Results(own.take()); });
  py::class_<Service, OwnedService>(module, "Service")
      .def(py::init(&service), py::arg("workers"), py::arg("capacity"), py::arg("threads"),
           py::arg("max_wait"), py::arg("takes_shortest"), py::arg("longest_wait"))
      .def("cancel", &Service::cancel, py::arg("id"), py::call_guard<py::gil_scoped_release>())
      .def("queued", &Service::queued, py::call_guard<py::gil_scoped_release>())
      .def("close", &Service::close, py::call_guard<py::gil_scoped_release>());
}

}  // namespace fastdec
