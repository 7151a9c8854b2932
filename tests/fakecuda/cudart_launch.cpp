// SPDX-License-Identifier: Apache-2.0
// Registration and launch of kernels: what nvcc's host code calls, and cudaLaunchKernel. A launch
// runs the kernel's host twin.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakecuda/cudart_call.h"
#include "tests/fakecuda/fake_device.h"
#include "tests/fakecuda/kernel_registry.h"
#include "tests/fakecuda/stream_operations.h"
#include "tests/fakecuda/twin.h"

namespace {

using commfuse::fake::Activity;
using commfuse::fake::cudart_call;
using commfuse::fake::FakeRuntime;
using commfuse::fake::Finding;
using commfuse::fake::KernelRegistry;
using commfuse::fake::kSharedBytesOptin;
using commfuse::fake::Launch;
using commfuse::fake::Machine;
using commfuse::fake::Submission;
using commfuse::fake::submit;
using commfuse::fake::Twin;
using commfuse::fake::TwinEntry;
using commfuse::fake::twins;
using commfuse::fake::Verdict;
using commfuse::fake::Work;

constexpr std::uint64_t kMostThreads = 1024;
constexpr unsigned int kMostBlocksX = 0x7fffffff;
constexpr unsigned int kMostBlocks = 65535;  // of y and z

/// What <<<...>>> leaves for the stub that it calls.
struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

bool fits(const dim3& grid, const dim3& block) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const bool blocks = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= kMostBlocksX &&
                      grid.y <= kMostBlocks && grid.z <= kMostBlocks;
  return blocks && threads > 0 && threads <= kMostThreads && block.z <= 64;
}

Twin twin_of(const std::string& kernel) {
  for (const TwinEntry& entry : twins()) {
    if (entry.kernel == kernel) return entry.twin;
  }
  throw Finding(Verdict::Kind::host_error, "the kernel " + kernel + " has no host twin");
}

/// The kernel behind a stub, loaded; null if nobody registered it.
const std::string* loaded(FakeRuntime& runtime, Machine& machine, const void* stub) {
  const std::string* name = KernelRegistry::instance().find(stub);
  if (name != nullptr) runtime.load(machine, stub, *name);
  return name;
}

cudaError_t launch(const void* stub, const Configuration& how, void** arguments) {
  return cudart_call("a kernel launch", [&](FakeRuntime& runtime, Machine& machine) {
    const auto stream = runtime.use(how.stream);
    if (!fits(how.grid, how.block)) return cudaErrorInvalidConfiguration;
    if (std::cmp_greater(how.shared_bytes, runtime.shared_limit(stub))) {
      return cudaErrorInvalidValue;
    }
    const std::string* name = loaded(runtime, machine, stub);
    if (name == nullptr) return cudaErrorInvalidDeviceFunction;
    Work work = twin_of(*name)({how.grid, how.block, how.shared_bytes, arguments});
    if (work.name.empty()) work.name = *name;
    submit(runtime, machine, stream, Submission{std::move(work), Activity::kernel, 0});
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* binary) {
  return static_cast<void**>(binary);  // any handle that is not null
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }

void __cudaRegisterFunction(void**, const char* stub, char*, const char* mangled, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  KernelRegistry::instance().add(stub, mangled);
}

unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                         CUstream_st* stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                       void* stream) {
  if (configurations().empty()) return cudaErrorMissingConfiguration;
  const Configuration& top = configurations().back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  configurations().pop_back();
  return cudaSuccess;
}

/// The handle of a kernel is the address of its stub.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  return launch(kernel, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return launch(stub, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* stub, void** arguments) {
  return launch(stub, {how->gridDim, how->blockDim, how->dynamicSmemBytes, how->stream}, arguments);
}

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute name, int value) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (loaded(runtime, machine, stub) == nullptr) return cudaErrorInvalidDeviceFunction;
    if (name == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;  // a hint
    if (name != cudaFuncAttributeMaxDynamicSharedMemorySize) {
      throw Finding(Verdict::Kind::host_error, "the fake does not know this attribute");
    }
    if (value < 0 || value > kSharedBytesOptin) return cudaErrorInvalidValue;
    runtime.set_shared_limit(stub, value);
    return cudaSuccess;
  });
}

/// Also loads the kernel, and is the documented way to do so ahead of its first launch.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (loaded(runtime, machine, stub) == nullptr) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->maxThreadsPerBlock = static_cast<int>(kMostThreads);
    attributes->maxDynamicSharedSizeBytes = runtime.shared_limit(stub);
    attributes->numRegs = 32;
    attributes->binaryVersion = runtime.devices().compute_major * 10;
    return cudaSuccess;
  });
}

}  // extern "C"
