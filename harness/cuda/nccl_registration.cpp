// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nccl_registration.h"

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "harness/cuda/cuda_error.h"
#include "harness/executor.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

void require_equal_sizes(World& group, const MemoryRange& range) {
  const auto bytes = static_cast<double>(range.bytes);
  if (group.max(bytes) == -group.max(-bytes)) return;
  throw std::runtime_error("the ranks register memory of different sizes");
}

}  // namespace

NcclRegistration::NcclRegistration(World& group, ncclComm_t communicator, CollectiveVia via,
                                   std::span<const MemoryRange> ranges)
    : group_(group),
      communicator_(communicator),
      via_(via),
      exceptions_(std::uncaught_exceptions()) {
  for (const MemoryRange& range : ranges) require_equal_sizes(group_, range);
  for (const MemoryRange& range : ranges) {
    std::string refusal;
    try {
      add(range);
    } catch (const std::runtime_error& error) {
      refusal = error.what();
      cudaGetLastError();  // what NCCL met would be found by the next launch
    }
    refusal = first_text(group_, refusal);
    if (refusal.empty()) continue;
    give_back();
    throw Unsupported(fmt::format("collective={}: {}", name_of(via_), refusal));
  }
}

void NcclRegistration::add(const MemoryRange& range) {
  void* handle = nullptr;
  if (via_ == CollectiveVia::registered) {
    CFB_CUDA(ncclCommRegister(communicator_, range.data, range.bytes, &handle));
  } else {
    ncclWindow_t window = nullptr;
    CFB_CUDA(ncclCommWindowRegister(communicator_, range.data, range.bytes, &window,
                                    NCCL_WIN_COLL_SYMMETRIC));
    handle = window;
  }
  // So it says that it did nothing: NCCL_LOCAL_REGISTER=0, or no symmetric memory here.
  if (handle == nullptr) throw std::runtime_error("NCCL registers no memory here");
  handles_.push_back(handle);
}

void NcclRegistration::give_back() noexcept {
  for (auto handle = handles_.rbegin(); handle != handles_.rend(); ++handle) {
    if (via_ == CollectiveVia::registered) {
      ncclCommDeregister(communicator_, *handle);
    } else {
      ncclCommWindowDeregister(communicator_, static_cast<ncclWindow_t>(*handle));
    }
  }
  handles_.clear();
}

NcclRegistration::~NcclRegistration() {
  if (std::uncaught_exceptions() <= exceptions_) wait_for_others();
  give_back();
}

void NcclRegistration::wait_for_others() noexcept {
  try {
    cudaDeviceSynchronize();
    group_.barrier();
  } catch (const std::exception&) {  // another rank failed, and ends all of them
  }
}

}  // namespace commfuse
