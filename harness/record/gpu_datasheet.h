// SPDX-License-Identifier: Apache-2.0
// What the maker of a GPU says it can do. One table; peaks are dense ones, without sparsity, whose
// figures are twice as high and which no gemm here reaches.
#pragma once

#include <span>
#include <string_view>

namespace commfuse {

/// 0 in a number: the datasheet has none, or there is none that we are sure of.
struct GpuDatasheet {
  std::string_view device;  // the whole of cudaDeviceProp.name; a slice of a GPU has another name
  double fp32_tflops = 0;   // without tensor cores
  double tf32_tflops = 0;   // dense, as all that follow; sums in fp32
  double bf16_tflops = 0;
  double fp16_tflops = 0;
  double memory_gb_per_s = 0;     // 10^9 bytes
  double nvlink_gb_per_s = 0;     // to all peers together, each way: half of what datasheets print
  bool nvlink_by_bridge = false;  // and only between cards that a bridge connects
  std::string_view source;
};

/// The row of a device; null where there is none.
const GpuDatasheet* datasheet_of(std::string_view device);

std::span<const GpuDatasheet> gpu_datasheets();

}  // namespace commfuse
