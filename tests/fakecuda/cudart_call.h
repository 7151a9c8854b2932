// SPDX-License-Identifier: Apache-2.0
// The frame around every function of the fake CUDA runtime and driver: what is found ends the run,
// and no exception leaves a C function.
#pragma once

#include <driver_types.h>
#include <fmt/format.h>

#include <exception>

#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/machine.h"

namespace commfuse::fake {

/// Ends the run; what it throws stays here.
inline void end_run(Machine& machine, const char* call, Verdict::Kind kind, const char* what) {
  try {
    machine.end(Finding(kind, fmt::format("{}: {}", call, what)));
  } catch (const Stopped&) {
  }
}

/// The result of body(runtime, machine), an error of the runtime or of the driver, which number
/// theirs alike. Where there is no run, as without a driver; after the end of the run, whatever the
/// call, the sticky cudaErrorUnknown.
template <class Body>
cudaError_t guarded_call(const char* call, Body body) noexcept {
  FakeRuntime* runtime = FakeRuntime::current();
  if (runtime == nullptr || !Machine::is_here()) return cudaErrorInsufficientDriver;
  Machine& machine = Machine::current();
  if (machine.ended()) return cudaErrorUnknown;
  try {
    return body(*runtime, machine);
  } catch (const Stopped&) {
  } catch (const Finding& finding) {
    end_run(machine, call, finding.kind(), finding.what());
  } catch (const std::exception& error) {
    end_run(machine, call, Verdict::Kind::host_error, error.what());
  }
  return cudaErrorUnknown;
}

/// A call of the runtime, which remembers the rank's last error.
template <class Body>
cudaError_t cudart_call(const char* call, Body body) noexcept {
  return guarded_call(call, [&](FakeRuntime& runtime, Machine& machine) {
    const cudaError_t error = body(runtime, machine);
    if (error != cudaSuccess) runtime.rank().last_error = error;
    return error;
  });
}

}  // namespace commfuse::fake
