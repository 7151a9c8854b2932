// SPDX-License-Identifier: Apache-2.0
// Devices, versions, peers.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "tests/fakecuda/cudart_call.h"
#include "tests/fakecuda/fake_device.h"

namespace {

using commfuse::fake::cudart_call;
using commfuse::fake::FakeDevices;
using commfuse::fake::FakeRuntime;
using commfuse::fake::Finding;
using commfuse::fake::kSharedBytesOptin;
using commfuse::fake::Machine;
using commfuse::fake::Verdict;

constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -5;
constexpr int kCopyEngines = 3;
constexpr int kSharedBytes = 48 << 10;
constexpr int kL2Bytes = 50 << 20;

bool exists(const FakeDevices& devices, int device) {
  return device >= 0 && device < devices.count;
}

int attribute(const FakeDevices& devices, cudaDeviceAttr name) {
  switch (name) {
    case cudaDevAttrMultiProcessorCount:
      return devices.sm_count;
    case cudaDevAttrComputeCapabilityMajor:
      return devices.compute_major;
    case cudaDevAttrComputeCapabilityMinor:
      return devices.compute_minor;
    case cudaDevAttrCanFlushRemoteWrites:
      return devices.can_flush_remote_writes ? 1 : 0;
    case cudaDevAttrAsyncEngineCount:
      return kCopyEngines;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return kSharedBytes;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return kSharedBytesOptin;
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrL2CacheSize:
      return kL2Bytes;
    case cudaDevAttrUnifiedAddressing:
      return 1;
    default:
      throw Finding(Verdict::Kind::host_error,
                    fmt::format("the fake knows no attribute {}", static_cast<int>(name)));
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    const FakeDevices& devices = runtime.devices();
    if (devices.device_count_error) return *devices.device_count_error;
    *count = devices.count;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    if (!exists(runtime.devices(), device)) return cudaErrorInvalidDevice;
    runtime.rank().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    *device = runtime.rank().device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int device) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    if (!exists(runtime.devices(), device)) return cudaErrorInvalidDevice;
    *value = attribute(runtime.devices(), name);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    const FakeDevices& devices = runtime.devices();
    if (!exists(devices, device)) return cudaErrorInvalidDevice;
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "fake device %d", device);
    properties->totalGlobalMem = devices.memory_bytes;
    properties->sharedMemPerBlock = kSharedBytes;
    properties->sharedMemPerBlockOptin = kSharedBytesOptin;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->major = devices.compute_major;
    properties->minor = devices.compute_minor;
    properties->multiProcessorCount = devices.sm_count;
    properties->asyncEngineCount = kCopyEngines;
    properties->unifiedAddressing = 1;
    properties->l2CacheSize = kL2Bytes;
    properties->pciBusID = device + 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* name, int bytes, int device) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    if (!exists(runtime.devices(), device)) return cudaErrorInvalidDevice;
    if (bytes < 13) return cudaErrorInvalidValue;  // "0000:01:00.0" and its end
    const FakeDevices& devices = runtime.devices();
    const int first = devices.own_devices ? Machine::current_rank() * devices.count : 0;
    std::snprintf(name, static_cast<std::size_t>(bytes), "0000:%02X:00.0", first + device + 1);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return cudart_call(__func__, [&](FakeRuntime&, Machine&) {
    if (lowest != nullptr) *lowest = kLowestPriority;
    if (highest != nullptr) *highest = kHighestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    const FakeDevices& devices = runtime.devices();
    if (!exists(devices, device) || !exists(devices, peer)) return cudaErrorInvalidDevice;
    *can = devices.peer_access && device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    const FakeDevices& devices = runtime.devices();
    if (flags != 0) return cudaErrorInvalidValue;
    if (!exists(devices, peer) || peer == runtime.rank().device) return cudaErrorInvalidDevice;
    if (!devices.peer_access) return cudaErrorPeerAccessUnsupported;
    const bool fresh = runtime.peers.insert({runtime.context(), peer}).second;
    return fresh ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    *version = runtime.devices().driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (runtime.spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    machine.synchronise_device(runtime.context());
    return cudaSuccess;
  });
}

}  // extern "C"
