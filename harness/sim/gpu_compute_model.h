// SPDX-License-Identifier: Apache-2.0
// How long ops take on a GPU that is not at hand: a model of a few numbers, none of which is a
// measurement of ours.
#pragma once

#include <array>
#include <cstdint>

#include "harness/sim/compute_model.h"
#include "suite/tensor.h"

namespace commfuse {

struct GpuRates {
  std::array<double, kDTypes.size()> peak_flops_per_second{};  // dense, by dtype
  double memory_bytes_per_second = 0;
  std::int32_t sms = 1;
  std::int32_t tile_m = 128;  // of D, that one SM computes at a time
  std::int32_t tile_n = 128;
  double gemm_share = 1;       // of the peak, where waves are full
  double attention_share = 1;  // of the peak
  double op_overhead_seconds = 0;
};

/// Every op takes its overhead and the longer of two times:
/// * memory: what it reads and writes, each once, at the memory's rate. A gemm whose C is another
///   view, or D itself, reads it too;
/// * arithmetic: none but for gemms and attention. D of a gemm is cut into tiles, and every wave of
///   as many tiles as there are SMs takes as long as a full one:
///     waves = ceil(strips * ceil(M / tile_m) * ceil(N / tile_n) / sms)
///     time = waves * sms * tile_m * tile_n * 2 K / (gemm_share * peak)
///   (tile and wave quantisation: NVIDIA, Matrix Multiplication Background User's Guide). M and N
///   are of a strip of D. Attention and its gradient take their FLOPs at attention_share * peak.
/// The dtype of what is multiplied decides the peak.
class GpuComputeModel final : public ComputeModel {
 public:
  explicit GpuComputeModel(const GpuRates& rates) : rates_(rates) {}
  [[nodiscard]] Picoseconds time(const Compute& op, std::span<const Tensor> tensors) const override;

 private:
  [[nodiscard]] double arithmetic_seconds(const Compute& op, std::span<const Tensor> tensors) const;

  GpuRates rates_;
};

}  // namespace commfuse
