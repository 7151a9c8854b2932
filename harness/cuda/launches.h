// SPDX-License-Identifier: Apache-2.0
// Our kernels behind plain functions: the only things that a .cu file defines for the rest. Each
// enqueues exactly one kernel and checks that the launch was accepted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "harness/cuda/device_storage.h"
#include "suite/compute.h"

namespace commfuse {

/// A view as kernels see it: element (strip, row, col) is `data[strip * strip_step + row * pitch +
/// col]`, in elements.
struct DeviceView {
  void* data = nullptr;
  std::int64_t pitch = 0;
  std::int64_t strip_step = 0;
  std::int32_t rows = 0;  // of one strip
  std::int32_t cols = 0;
  std::int32_t strips = 1;
  DType dtype = DType::f32;
};
DeviceView device_view(const View& view, const DeviceStorage& storage);

/// The packed form of `source` becomes that of `target`; equal element counts and dtypes.
void launch_copy(const DeviceView& target, const DeviceView& source, cudaStream_t stream);
/// d = a + the sum over the strips of `terms`, in fp32, rounded once. d may be a.
void launch_accumulate(const DeviceView& d, const DeviceView& a, const DeviceView& terms,
                       cudaStream_t stream);
void launch_elementwise(const DeviceView& y, const DeviceView& x, Activation kind,
                        cudaStream_t stream);
/// A kernel that does nothing, to be found in traces before and after a lane's work.
void launch_sentinel(cudaStream_t stream);

}  // namespace commfuse
