// SPDX-License-Identifier: Apache-2.0
// Memory of devices and of hosts, and its sharing between processes.
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>

#include "tests/fakecuda/cudart_call.h"

namespace {

using commfuse::fake::cudart_call;
using commfuse::fake::decode;
using commfuse::fake::encode;
using commfuse::fake::FakeRuntime;
using commfuse::fake::Machine;
using commfuse::fake::report_host_error;
using commfuse::fake::SharedMemoryName;
using commfuse::fake::Verdict;

/// Smaller allocations share a block of the driver, and with it a handle.
constexpr std::size_t kShareable = std::size_t{2} << 20;
constexpr int kUnwritten = 0xff;

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (runtime.spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    runtime.check_lull(machine, "cudaMalloc");
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    *memory = runtime.allocate(machine, bytes);
    return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaFree(void* memory) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (memory == nullptr) return cudaSuccess;
    if (runtime.spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    runtime.check_lull(machine, "cudaFree");
    runtime.release(machine, memory);
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    *free = runtime.free_bytes(runtime.rank().device);
    *total = runtime.devices().memory_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (runtime.spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    runtime.check_lull(machine, "cudaHostAlloc");
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    auto block = std::make_unique<std::byte[]>(bytes);
    std::memset(block.get(), kUnwritten, bytes);
    *memory = block.get();
    runtime.pinned[*memory] = {std::move(block), bytes};
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* memory) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (memory == nullptr) return cudaSuccess;
    if (runtime.spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    runtime.check_lull(machine, "cudaFreeHost");
    if (!runtime.pinned.contains(memory))
      report_host_error("this is no live memory of cudaHostAlloc");
    machine.synchronise_device(runtime.context());
    runtime.pinned.erase(memory);
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    const auto* entry = runtime.allocation(memory);
    if (entry == nullptr) report_host_error("this is no live memory of cudaMalloc");
    const auto& [base, allocation] = *entry;
    if (allocation.rank != Machine::current_rank()) {
      report_host_error(fmt::format("this memory belongs to rank {}", allocation.rank));
    }
    if (base != memory) report_host_error("this is not the base of an allocation");
    if (allocation.bytes % kShareable != 0) {
      report_host_error(
          fmt::format("{} bytes are no multiple of 2 MiB: the allocation may share its block "
                      "with others",
                      allocation.bytes));
    }
    *handle = encode({true, allocation.rank, memory});
    return cudaSuccess;
  });
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned int flags) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine&) {
    if (flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
    const SharedMemoryName name = decode(handle);
    if (!name.valid) report_host_error("what was given is no handle");
    const std::int32_t rank = Machine::current_rank();
    // A process cannot open its own handle.
    if (name.owner == rank || runtime.devices().one_process) return cudaErrorDeviceUninitialized;
    if (!runtime.devices().opens_handles) return cudaErrorInvalidValue;
    if (runtime.allocation(name.base) == nullptr) {
      report_host_error(fmt::format("rank {} has freed this memory", name.owner));
    }
    runtime.shared.open(rank, name.base);
    *memory = name.base;
    return cudaSuccess;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    runtime.shared.close(machine, Machine::current_rank(), memory);
    return cudaSuccess;
  });
}

}  // extern "C"
