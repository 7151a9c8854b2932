// SPDX-License-Identifier: Apache-2.0
// Runs a workload's stages in plain order on all ranks of one process: gather, compute, send. No
// plans, no schedules: what the oracle and the phases are compared with.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "suite/workload.h"

namespace commfuse {

/// How the compute of a stage is cut into tiles.
enum class Cut : std::uint8_t {
  whole,     // one tile
  slices,    // part by part of every peer's slice
  strips,    // part by part of all slices at once
  features,  // the last phase by pieces of its output features
  targeted,  // as slices; the own slice straight into the result, the peers' sum added on the way
};

class PlainRun {
 public:
  PlainRun(const Workload& workload, const Source& source, Portion portion = Portion::schedule);

  /// Runs all stages, in fp32 with every store rounded to the tensor's dtype; without what moves,
  /// if the portion is compute_only. Tiles are cut into two parts where the cut has any.
  void run(Cut cut);
  /// Only what moves: comm_only.
  void move();
  [[nodiscard]] float value(std::int32_t rank, TensorId tensor, std::int32_t row,
                            std::int32_t col) const;
  /// The largest sum of absolute terms that stood behind any stored value.
  [[nodiscard]] double largest_magnitude() const { return largest_magnitude_; }
  /// Stores that rounding to the dtype changed.
  [[nodiscard]] std::int64_t changed_by_rounding() const { return changed_by_rounding_; }

 private:
  struct Element {
    float value = 0;
    double magnitude = 0;
  };
  struct Sum {
    float value = 0;
    double magnitude = 0;
    void add(float term) {
      value += term;
      magnitude += std::abs(term);
    }
  };
  /// One rank's tensors, row major.
  using Memory = std::vector<std::vector<Element>>;

  void run_stage(const Stage& stage, Cut cut);
  void gather(const Stage& stage);
  void compute(const Stage& stage, const Tile& tile, const Target& target, std::int32_t rank);
  void compute_features(const Stage& stage, std::int32_t rank);
  void compute_tiles(const Stage& stage, Cut cut, std::int32_t rank);
  void reduce(const Stage& stage, std::int32_t slice, bool own);
  void sum_everywhere(const AllReduce& reduction);
  void exchange(const Stage& stage);
  void send(const Stage& stage);
  void run_targeted(const Stage& stage);
  void apply(const Compute& op, std::int32_t rank);
  void apply(const Gemm& op);
  void apply(const Attention& op);
  void apply(const AttentionGradient& op);
  void apply(const Elementwise& op);
  void apply(const ActivationGradient& op);
  void apply(const Norm& op);
  void apply(const NormGradient& op);
  void apply(const GammaGradient& op);
  void apply(const Copy& op);
  void apply(const Residual& op);
  void apply(const Adam& op);

  /// One packed query row and head; adds to the packed sums of dk and dv.
  void attend_back(const AttentionGradient& op, std::int64_t row, std::int32_t head,
                   std::span<Sum> dk, std::span<Sum> dv);
  /// What a norm divides a packed row by.
  float rms(const View& x, std::int64_t row);
  Element& factor_a(const Gemm& op, std::int64_t row, std::int32_t k);
  Element& factor_b(const Gemm& op, std::int64_t row, std::int32_t col, std::int32_t k);
  Element& at(const View& view, std::int64_t packed_row, std::int32_t col);
  void store(Element& element, TensorId tensor, double value, double magnitude);

  const Workload& workload_;
  bool moves_;  // not where only compute is asked for
  std::vector<Memory> memories_;
  Memory* memory_ = nullptr;  // of the rank whose op is applied
  double largest_magnitude_ = 0;
  std::int64_t changed_by_rounding_ = 0;
};

}  // namespace commfuse
