// SPDX-License-Identifier: Apache-2.0
#include "harness/record/gpu_datasheet.h"

#include <algorithm>
#include <array>

namespace commfuse {
namespace {

constexpr bool kBridge = true;

// device, TFLOP/s of fp32, tf32, bf16, fp16, GB/s of memory, of NVLink each way, source. Where a
// datasheet prints figures with sparsity alone, half of them.
constexpr std::array kDatasheets{
    GpuDatasheet{"NVIDIA A100-SXM4-40GB", 19.5, 156, 312, 312, 1555, 300, !kBridge,
                 "NVIDIA A100 datasheet, SXM 40GB, dense"},
    GpuDatasheet{"NVIDIA A100-SXM4-80GB", 19.5, 156, 312, 312, 2039, 300, !kBridge,
                 "NVIDIA A100 datasheet, SXM 80GB, dense"},
    GpuDatasheet{"NVIDIA A100-PCIE-40GB", 19.5, 156, 312, 312, 1555, 300, kBridge,
                 "NVIDIA A100 datasheet, PCIe 40GB, dense"},
    GpuDatasheet{"NVIDIA A100 80GB PCIe", 19.5, 156, 312, 312, 1935, 300, kBridge,
                 "NVIDIA A100 datasheet, PCIe 80GB, dense"},
    GpuDatasheet{"NVIDIA A30", 10.3, 82, 165, 165, 933, 100, kBridge,
                 "NVIDIA A30 datasheet, dense"},
    GpuDatasheet{"NVIDIA A10", 31.2, 62.5, 125, 125, 600, 0, !kBridge,
                 "NVIDIA A10 datasheet, dense"},
    GpuDatasheet{"NVIDIA L4", 30.3, 60, 121, 121, 300, 0, !kBridge,
                 "NVIDIA L4 datasheet, half of the figures with sparsity"},
    GpuDatasheet{"NVIDIA L40S", 91.6, 183, 362, 362, 864, 0, !kBridge,
                 "NVIDIA L40S datasheet, dense"},
    GpuDatasheet{"NVIDIA H100 80GB HBM3", 67, 494.5, 989.5, 989.5, 3350, 450, !kBridge,
                 "NVIDIA H100 datasheet, SXM, half of the figures with sparsity"},
    GpuDatasheet{"NVIDIA H100 PCIe", 51, 378, 756.5, 756.5, 2000, 300, kBridge,
                 "NVIDIA H100 datasheet, PCIe, half of the figures with sparsity"},
    GpuDatasheet{"NVIDIA H100 NVL", 60, 417.5, 835.5, 835.5, 3900, 300, kBridge,
                 "NVIDIA H100 datasheet, NVL, half of the figures with sparsity"},
    GpuDatasheet{"NVIDIA H200", 67, 494.5, 989.5, 989.5, 4800, 450, !kBridge,
                 "NVIDIA H200 datasheet, SXM, half of the figures with sparsity"},
    GpuDatasheet{"NVIDIA H200 NVL", 60, 417.5, 835.5, 835.5, 4800, 450, kBridge,
                 "NVIDIA H200 datasheet, NVL, half of the figures with sparsity"},
    GpuDatasheet{"NVIDIA B200", 0, 1100, 2250, 2250, 8000, 900, !kBridge,
                 "NVIDIA Blackwell architecture brief, HGX B200, dense"},
    GpuDatasheet{"NVIDIA GB200", 0, 1250, 2500, 2500, 8000, 900, !kBridge,
                 "NVIDIA GB200 NVL72 datasheet, one of a superchip's two GPUs, dense"},
};

}  // namespace

const GpuDatasheet* datasheet_of(std::string_view device) {
  const auto* const found = std::ranges::find(kDatasheets, device, &GpuDatasheet::device);
  return found == kDatasheets.end() ? nullptr : found;
}

std::span<const GpuDatasheet> gpu_datasheets() { return kDatasheets; }

}  // namespace commfuse
