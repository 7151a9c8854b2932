// SPDX-License-Identifier: Apache-2.0
// Streams, events and device memory that free themselves. Frees report nothing: a context that is
// broken has said so before.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "harness/cuda/cuda_error.h"

namespace commfuse {

/// A stream that never synchronises with the default stream.
class Stream {
 public:
  /// Lower numbers are higher priorities; see cudaDeviceGetStreamPriorityRange.
  explicit Stream(int priority) {
    cudaStream_t stream = nullptr;
    CFB_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
    stream_.reset(stream);
  }
  operator cudaStream_t() const { return stream_.get(); }

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
};

enum class EventUse : std::uint8_t { order, timing };

class CudaEvent {
 public:
  explicit CudaEvent(EventUse use) {
    cudaEvent_t event = nullptr;
    CFB_CUDA(cudaEventCreateWithFlags(
        &event, use == EventUse::order ? cudaEventDisableTiming : cudaEventDefault));
    event_.reset(event);
  }
  operator cudaEvent_t() const { return event_.get(); }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

/// Device memory of this rank, 256-byte aligned.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* memory = nullptr;
    CFB_CUDA(cudaMalloc(&memory, bytes));
    memory_.reset(static_cast<std::byte*>(memory));
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Leaves it to the end of the process.
  void leave_allocated() { static_cast<void>(memory_.release()); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { cudaFree(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace commfuse
