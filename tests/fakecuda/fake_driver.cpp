// SPDX-License-Identifier: Apache-2.0
// Functions of the driver, which the runtime hands out by name: values in streams, names of errors.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tests/fakecuda/cudart_call.h"
#include "tests/fakecuda/stream_operations.h"

namespace {

using commfuse::fake::cudart_call;
using commfuse::fake::FakeRuntime;
using commfuse::fake::guarded_call;
using commfuse::fake::Machine;
using commfuse::fake::report_host_error;
using commfuse::fake::submit;
using commfuse::fake::ValueOperation;
using commfuse::fake::Verdict;

template <class Body>
CUresult driver_call(const char* call, Body body) noexcept {
  return static_cast<CUresult>(guarded_call(call, body));
}

bool is_aligned(CUdeviceptr address) { return address % sizeof(cuuint32_t) == 0; }

CUresult CUDAAPI write_value(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  return driver_call("cuStreamWriteValue32", [&](FakeRuntime& runtime, Machine& machine) {
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT)
      report_host_error("only the flag DEFAULT fences the write");
    if (!is_aligned(address)) return cudaErrorInvalidValue;
    submit(runtime, machine, runtime.use(stream),
           ValueOperation{reinterpret_cast<void*>(address), value, ValueOperation::Kind::write});
    return cudaSuccess;
  });
}

ValueOperation::Kind comparison(unsigned int flags) {
  if (flags == CU_STREAM_WAIT_VALUE_GEQ) return ValueOperation::Kind::wait_greater_equal;
  if (flags == CU_STREAM_WAIT_VALUE_EQ) return ValueOperation::Kind::wait_equal;
  report_host_error("the fake waits for GEQ and EQ only");
}

CUresult CUDAAPI wait_value(CUstream stream, CUdeviceptr address, cuuint32_t wanted,
                            unsigned int flags) {
  return driver_call("cuStreamWaitValue32", [&](FakeRuntime& runtime, Machine& machine) {
    const bool flush = (flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0;
    if (flush && !runtime.devices().can_flush_remote_writes) return cudaErrorNotSupported;
    if (!is_aligned(address)) return cudaErrorInvalidValue;
    const auto kind = comparison(flags & ~unsigned{CU_STREAM_WAIT_VALUE_FLUSH});
    submit(runtime, machine, runtime.use(stream),
           ValueOperation{reinterpret_cast<void*>(address), wanted, kind});
    return cudaSuccess;
  });
}

CUresult CUDAAPI device_of(CUdevice* device, int number) {
  return driver_call("cuDeviceGet", [&](FakeRuntime& runtime, Machine&) {
    if (number < 0 || number >= runtime.devices().count) return cudaErrorInvalidDevice;
    *device = number;
    return cudaSuccess;
  });
}

CUresult CUDAAPI device_attribute(int* value, CUdevice_attribute name, CUdevice) {
  return driver_call("cuDeviceGetAttribute", [&](FakeRuntime& runtime, Machine&) {
    if (name != CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)
      report_host_error("the fake knows multicast only");
    *value = runtime.devices().multicast ? 1 : 0;
    return cudaSuccess;
  });
}

struct NamedResult {
  CUresult error;
  const char* name;
  const char* text;
};

/// What the fake returns.
constexpr std::array kResults{
    NamedResult{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    NamedResult{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    NamedResult{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    NamedResult{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult put_text(CUresult error, const char* NamedResult::*part, const char** text) {
  const auto* const found = std::ranges::find(kResults, error, &NamedResult::error);
  *text = found != kResults.end() ? found->*part : nullptr;
  return found != kResults.end() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI error_name(CUresult error, const char** name) {
  return put_text(error, &NamedResult::name, name);
}

CUresult CUDAAPI error_string(CUresult error, const char** text) {
  return put_text(error, &NamedResult::text, text);
}

struct Entry {
  std::string_view name;
  void* function;
  unsigned int since;  // the version of CUDA in which this form came
};

std::array<Entry, 6> entries() {
  return {Entry{"cuStreamWriteValue32", reinterpret_cast<void*>(&write_value), 11070},
          Entry{"cuStreamWaitValue32", reinterpret_cast<void*>(&wait_value), 11070},
          Entry{"cuDeviceGet", reinterpret_cast<void*>(&device_of), 2000},
          Entry{"cuDeviceGetAttribute", reinterpret_cast<void*>(&device_attribute), 2000},
          Entry{"cuGetErrorName", reinterpret_cast<void*>(&error_name), 6000},
          Entry{"cuGetErrorString", reinterpret_cast<void*>(&error_string), 6000}};
}

cudaDriverEntryPointQueryResult look_up(const FakeRuntime& runtime, std::string_view name,
                                        unsigned int version, void** function) {
  const auto table = entries();
  const auto* const entry = std::ranges::find(table, name, &Entry::name);
  const bool missing = std::ranges::count(runtime.devices().missing_driver_functions, name) > 0;
  if (entry == table.end() || missing) return cudaDriverEntryPointSymbolNotFound;
  if (std::cmp_greater(version, runtime.devices().driver_version)) {
    return cudaDriverEntryPointVersionNotSufficent;
  }
  if (version < entry->since) report_host_error("this version selects an old form of the function");
  *function = entry->function;
  return cudaDriverEntryPointSuccess;
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                        unsigned int version,
                                                        unsigned long long flags,
                                                        cudaDriverEntryPointQueryResult* found) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    if (flags != cudaEnableDefault) return cudaErrorInvalidValue;
    *function = nullptr;
    const cudaDriverEntryPointQueryResult result = look_up(runtime, name, version, function);
    if (found != nullptr) *found = result;
    return cudaSuccess;
  });
}
