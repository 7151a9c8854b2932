// SPDX-License-Identifier: Apache-2.0
// Device memory that NCCL allocates: what can be registered with it.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>

#include "harness/cuda/cuda_error.h"

namespace commfuse {

/// Memory of the calling thread's device, 4096-byte aligned. It is freed without a report, and
/// after everything that registered it has let it go.
class NcclMemory {
 public:
  NcclMemory() = default;
  explicit NcclMemory(std::size_t bytes) {
    if (bytes == 0) return;
    void* memory = nullptr;
    CFB_CUDA(ncclMemAlloc(&memory, bytes));
    memory_.reset(static_cast<std::byte*>(memory));
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ncclMemFree(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace commfuse
