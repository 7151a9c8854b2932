// SPDX-License-Identifier: Apache-2.0
// The last error of each rank, and names of errors.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/fakecuda/cudart_call.h"

namespace {

using commfuse::fake::cudart_call;
using commfuse::fake::FakeRuntime;
using commfuse::fake::Machine;

struct Named {
  cudaError_t error;
  const char* name;
  const char* text;
};

/// What the fake returns.
constexpr std::array kErrors{
    Named{cudaSuccess, "cudaSuccess", "no error"},
    Named{cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    Named{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    Named{cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
          "invalid configuration argument"},
    Named{cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
          "CUDA driver version is insufficient for CUDA runtime version"},
    Named{cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction",
          "invalid device function"},
    Named{cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    Named{cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    Named{cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    Named{cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
          "peer access is not supported between these two devices"},
    Named{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
          "invalid resource handle"},
    Named{cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    Named{cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
          "peer access is already enabled"},
    Named{cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    Named{cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    Named{cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
          "__global__ function call is not configured"},
    Named{cudaErrorIllegalState, "cudaErrorIllegalState",
          "the operation cannot be performed in the present state"},
    Named{cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
          "operation not permitted on an event last recorded in a capturing stream"},
    Named{cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
          "operation not permitted when stream is capturing"},
    Named{cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
          "capture was not ended in the same stream as it began"},
    Named{cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
          "capturing stream has unjoined work"},
    Named{cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
          "dependency created on uncaptured work in another stream"},
    Named{cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
          "operation failed due to a previous error during capture"},
    Named{cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

Named named(cudaError_t error) {
  const auto* const found = std::ranges::find(kErrors, error, &Named::error);
  if (found != kErrors.end()) return *found;
  return {error, "unrecognized error code", "unrecognized error code"};
}

}  // namespace

extern "C" {

cudaError_t cudaPeekAtLastError() {
  return cudart_call(__func__,
                     [](FakeRuntime& runtime, Machine&) { return runtime.rank().last_error; });
}

cudaError_t cudaGetLastError() {
  cudaError_t last = cudaSuccess;
  const cudaError_t error = cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    last = std::exchange(runtime.rank().last_error, cudaSuccess);
    return cudaSuccess;
  });
  return error != cudaSuccess ? error : last;
}

const char* cudaGetErrorName(cudaError_t error) { return named(error).name; }

const char* cudaGetErrorString(cudaError_t error) { return named(error).text; }

}  // extern "C"
