// SPDX-License-Identifier: Apache-2.0
// Zeros in place of a view, cut and aligned as it is, so that a kernel can be loaded by launching
// it as it will be launched, and nothing of a workload is touched.
#pragma once

#include <cuda_runtime_api.h>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/launches.h"
#include "harness/cuda/slab.h"

namespace commfuse {

class StandIn {
 public:
  /// Zeroed in the order of `stream`.
  StandIn(const DeviceView& like, cudaStream_t stream) : view_(like) {
    const auto misaligned = reinterpret_cast<std::uintptr_t>(like.data) % kTensorAlignment;
    const std::int64_t elements =
        (like.strips - 1) * like.strip_step + (like.rows - 1) * like.pitch + like.cols;
    const auto bytes = static_cast<std::size_t>(elements * bytes_of(like.dtype)) + misaligned;
    memory_ = DeviceMemory(bytes);
    CFB_CUDA(cudaMemsetAsync(memory_.data(), 0, bytes, stream));
    view_.data = memory_.data() + misaligned;
  }
  [[nodiscard]] const DeviceView& view() const { return view_; }

 private:
  DeviceMemory memory_;
  DeviceView view_;
};

}  // namespace commfuse
