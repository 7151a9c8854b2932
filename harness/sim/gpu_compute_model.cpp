// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/gpu_compute_model.h"

#include <algorithm>

namespace commfuse {
namespace {

std::int64_t pieces(std::int64_t size, std::int64_t of) { return (size + of - 1) / of; }

double flops_of_full_waves(const Gemm& op, const GpuRates& rates) {
  const std::int64_t tiles =
      op.d.strips * pieces(op.d.rows, rates.tile_m) * pieces(op.d.cols, rates.tile_n);
  const auto tiles_of_waves = static_cast<double>(pieces(tiles, rates.sms) * rates.sms);
  const double per_element = static_cast<double>(flops(op)) / static_cast<double>(op.d.elements());
  return tiles_of_waves * rates.tile_m * rates.tile_n * per_element;
}

}  // namespace

double GpuComputeModel::arithmetic_seconds(const Compute& op,
                                           std::span<const Tensor> tensors) const {
  const auto peak_for = [&](const View& view) {
    return rates_.peak_flops_per_second[static_cast<std::size_t>(tensors[view.tensor].dtype)];
  };
  if (const auto* gemm = std::get_if<Gemm>(&op)) {
    return flops_of_full_waves(*gemm, rates_) / (rates_.gemm_share * peak_for(gemm->a));
  }
  if (const auto* attention = std::get_if<Attention>(&op)) {
    return static_cast<double>(flops(op)) / (rates_.attention_share * peak_for(attention->q));
  }
  if (const auto* gradient = std::get_if<AttentionGradient>(&op)) {
    return static_cast<double>(flops(op)) / (rates_.attention_share * peak_for(gradient->q));
  }
  return 0;
}

Picoseconds GpuComputeModel::time(const Compute& op, std::span<const Tensor> tensors) const {
  const double memory = static_cast<double>(bytes(op, tensors)) / rates_.memory_bytes_per_second;
  return picoseconds(rates_.op_overhead_seconds +
                     std::max(memory, arithmetic_seconds(op, tensors)));
}

}  // namespace commfuse
