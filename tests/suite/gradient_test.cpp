// SPDX-License-Identifier: Apache-2.0
// Weight gradients against differences of a loss, which only the forward pass is needed for: with
// dY of the last map as the constant G, loss(W_i) = sum(G * (X_i W_i^T ... W_n^T)) over the tokens
// of all ranks.
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "suite/oracle.h"
#include "tests/suite/small_cases.h"

namespace commfuse {
namespace {

/// Row major.
struct Matrix {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::vector<double> values;

  [[nodiscard]] double& at(std::int32_t row, std::int32_t col) {
    return values[static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) +
                  static_cast<std::size_t>(col)];
  }
};

/// Everything that the ranks start with, by name of the tensor.
std::vector<std::map<std::string, Matrix>> inputs_of(const Workload& workload,
                                                     const Source& source) {
  std::vector<std::map<std::string, Matrix>> ranks;
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    auto& tensors = ranks.emplace_back();
    for (const Fill& fill : workload.inputs(rank)) {
      Matrix matrix{fill.view.rows, fill.view.cols, {}};
      std::vector<float> row(static_cast<std::size_t>(fill.view.cols));
      for (std::int32_t i = 0; i < fill.view.rows; ++i) {
        fill_row(fill, source, i, row);
        matrix.values.insert(matrix.values.end(), row.begin(), row.end());
      }
      tensors[workload.tensors[fill.view.tensor].name] = std::move(matrix);
    }
  }
  return ranks;
}

Matrix times_transpose(Matrix& x, Matrix& w) {
  Matrix y{x.rows, w.rows, {}};
  for (std::int32_t i = 0; i < x.rows; ++i) {
    for (std::int32_t j = 0; j < w.rows; ++j) {
      double sum = 0;
      for (std::int32_t k = 0; k < x.cols; ++k) sum += x.at(i, k) * w.at(j, k);
      y.values.push_back(sum);
    }
  }
  return y;
}

class Loss {
 public:
  Loss(const Workload& workload, const Source& source, std::vector<std::string> maps)
      : ranks_(inputs_of(workload, source)), maps_(std::move(maps)) {}

  /// As a function of the weight of map `first`.
  double operator()(std::size_t first, Matrix& weight) {
    double loss = 0;
    for (auto& tensors : ranks_) {
      Matrix y = times_transpose(tensors.at("X_" + maps_[first]), weight);
      for (std::size_t i = first + 1; i < maps_.size(); ++i) {
        y = times_transpose(y, tensors.at("W_" + maps_[i]));
      }
      const Matrix& g = tensors.at("dY_" + maps_.back());
      for (std::size_t i = 0; i < y.values.size(); ++i) loss += g.values[i] * y.values[i];
    }
    return loss;
  }

 private:
  std::vector<std::map<std::string, Matrix>> ranks_;
  std::vector<std::string> maps_;
};

TensorId named(const Workload& workload, const std::string& name) {
  for (TensorId id = 0; id < workload.tensors.size(); ++id) {
    if (workload.tensors[id].name == name) return id;
  }
  throw std::logic_error("no tensor " + name);
}

/// The row of all ranks' gradient, from the rank that has it.
std::vector<double> gradient_row(const Oracle& oracle, const Workload& workload,
                                 const std::string& map, std::int32_t row) {
  const TensorId id = named(workload, "dW_" + map);
  const Tensor& result = workload.tensors[id];
  const std::int32_t rank = row / result.rows;
  const std::vector<std::int32_t> rows{row % result.rows};
  return oracle.rows(Portion::schedule, rank, whole(id, result), rows)[0].value;
}

class Gradients : public testing::TestWithParam<const char*> {};

TEST_P(Gradients, AreTheSlopesOfTheLoss) {
  Shape shape = parse_shape("hidden=6,ffn=8,layers=2");
  shape.tokens = 5;
  const Workload workload = SmallCase{GetParam(), shape, 2}.build();
  const Source source{7, DataMode::random};
  const Oracle oracle(workload, source);
  const std::vector<std::string> maps{"up0", "down0", "up1", "down1"};
  Loss loss(workload, source, maps);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const Tensor& partial = workload.tensors[named(workload, "partial_" + maps[i])];
    Matrix weight{partial.rows, partial.cols,
                  std::vector<double>(static_cast<std::size_t>(partial.elements()), 0.25)};
    for (std::int32_t row = 0; row < partial.rows; ++row) {
      const std::vector<double> gradient = gradient_row(oracle, workload, maps[i], row);
      for (std::int32_t col = 0; col < partial.cols; ++col) {
        constexpr double kStep = 0x1p-4;  // the loss is linear: no step is too large
        double& element = weight.at(row, col);
        element += kStep;
        const double above = loss(i, weight);
        element -= 2 * kStep;
        const double below = loss(i, weight);
        element += kStep;
        EXPECT_NEAR(gradient[static_cast<std::size_t>(col)], (above - below) / (2 * kStep), 1e-11)
            << maps[i] << '[' << row << ", " << col << ']';
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dp, Gradients, testing::Values("dp/zero2", "dp/ddp"),
                         [](const auto& workload) {
                           return std::string(workload.param).substr(3);
                         });

}  // namespace
}  // namespace commfuse
