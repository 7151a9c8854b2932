// SPDX-License-Identifier: Apache-2.0
// Norms, gradients, residuals and steps of Adam as phases of a stage, cut into tiles: a plain run
// against the oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "suite/oracle_linear.h"
#include "tests/suite/plain_run.h"

namespace commfuse {
namespace {

constexpr std::int32_t kRanks = 2;
constexpr std::int32_t kRows = 12;  // of a slice
constexpr std::int32_t kCols = 16;
constexpr Source kSource{3, DataMode::random};

enum NormTensor : TensorId {
  kX,
  kAbove,
  kGamma,
  kY,
  kDx,
  kDgamma,
  kGated,
  kSum,
  kW,
  kM,
  kV,
  kNewW,
  kNewM,
  kNewV,
  kCopy
};

Fill input(NormTensor id) {
  const std::int32_t rows = id == kGamma ? 1 : kRanks * kRows;
  return {.view = {.tensor = id, .rows = rows, .cols = kCols}, .global = id};
}

Workload norm_workload(DType dtype) {
  Workload workload;
  workload.ranks = kRanks;
  const auto add = [&](const char* name, std::int32_t rows, std::int32_t cols) {
    workload.tensors.push_back({name, rows, cols, dtype});
  };
  add("x", kRanks * kRows, kCols);
  add("dy", kRanks * kRows, kCols);
  add("gamma", 1, kCols);
  add("y", kRanks * kRows, kCols);
  add("dx", kRanks * kRows, kCols);
  add("dgamma", 1, kCols);
  add("dgated", kRanks * kRows, kCols);
  add("sum", kRanks * kRows, kCols);
  for (const char* const name : {"w", "m", "v", "new_w", "new_m", "new_v"}) {
    workload.tensors.push_back({name, kRanks * kRows, kCols, DType::f32});
  }
  add("copy", kRanks * kRows, kCols);
  workload.inputs = [](std::int32_t) {
    return std::vector<Fill>{input(kX), input(kAbove), input(kGamma),
                             input(kW), input(kM),     input(kV)};
  };
  const Axis axis{.ranks = kRanks, .rows = kRows};
  const std::vector<Tensor> tensors = workload.tensors;
  const View gamma = whole(kGamma, tensors[kGamma]);
  const View dgamma = whole(kDgamma, tensors[kDgamma]);
  workload.stages.push_back({.name = "norm", .axis = axis, .phases = {}});
  workload.stages[0].phases.emplace_back([=](const Tile& tile, const Target&) {
    const auto at = [&](NormTensor id) { return tile_rows(id, tensors[id], axis, tile); };
    View half = at(kAbove);
    half.cols /= 2;
    return std::vector<Compute>{
        Norm{at(kY), at(kX), gamma},
        NormGradient{at(kDx), at(kAbove), at(kX), gamma},
        GammaGradient{dgamma, at(kAbove), at(kX), true},
        ActivationGradient{at(kGated), half, at(kX), Activation::swiglu},
        Residual{at(kSum), at(kX), at(kAbove)},
        Adam{at(kNewW), at(kNewM), at(kNewV), at(kW), at(kM), at(kV), at(kAbove), at(kCopy)}};
  });
  return workload;
}

Rows known(NormTensor id) {
  const Fill fill = input(id);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(fill.view.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return input_rows(fill, {0, kCols}, rows, kSource);
}

void expect_rows(const PlainRun& run, NormTensor id, const Rows& expected) {
  for (std::int32_t row = 0; row < expected.count; ++row) {
    for (std::int32_t col = 0; col < expected.cols; ++col) {
      const std::size_t i = expected.at(row, col);
      for (std::int32_t rank = 0; rank < kRanks; ++rank) {
        EXPECT_LE(std::abs(run.value(rank, id, row, col) - expected.value[i]), expected.error[i])
            << "tensor " << id << " row " << row << " column " << col;
      }
    }
  }
}

TEST(PlainRun, ComputesWhatGoesElementByElementOrRowByRowInEveryCut) {
  const Rows x = known(kX);
  const Rows gamma = known(kGamma);
  const Rows above = known(kAbove);
  const AdamRows step = adam(known(kW), known(kM), known(kV), above);
  Rows half(above.count, kCols / 2);
  for (std::int32_t row = 0; row < half.count; ++row) {
    for (std::int32_t col = 0; col < half.cols; ++col) {
      half.value[half.at(row, col)] = above.value[above.at(row, col)];
    }
  }
  for (const DType dtype : kDTypes) {
    const Workload workload = norm_workload(dtype);
    for (const Cut cut : {Cut::whole, Cut::slices, Cut::strips}) {
      PlainRun run(workload, kSource);
      run.run(cut);
      const std::int32_t tiles = cut == Cut::whole ? 1 : cut == Cut::strips ? 2 : 2 * kRanks;
      expect_rows(run, kY, norm(x, gamma, dtype));
      expect_rows(run, kDx, norm_gradient(above, x, gamma, dtype));
      expect_rows(run, kDgamma, gamma_gradient(above, x, tiles, dtype));
      expect_rows(run, kGated, activation_gradient(half, x, Activation::swiglu, dtype));
      expect_rows(run, kSum, residual(x, above, dtype));
      expect_rows(run, kNewW, step.w);
      expect_rows(run, kNewM, step.m);
      expect_rows(run, kNewV, step.v);
      expect_rows(run, kCopy, rounded(step.w, dtype));
    }
  }
}

}  // namespace
}  // namespace commfuse
