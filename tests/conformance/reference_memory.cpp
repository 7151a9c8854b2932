// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/reference_memory.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "tests/suite/rounded_to.h"

namespace commfuse {
namespace {

constexpr double kPoison = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double rounded(double value, DType dtype) {
  const auto single = static_cast<float>(value);
  return dtype == DType::f32 ? single : rounded_to(dtype, single);
}

ReferenceMemory::ReferenceMemory(std::span<const Plan> plans) {
  for (const Plan& plan : plans) {
    Rank& rank = ranks_.emplace_back();
    rank.tensors = plan.tensors;
    for (const Tensor& tensor : plan.tensors) {
      rank.values.emplace_back(static_cast<std::size_t>(tensor.elements()), kPoison);
    }
  }
}

void ReferenceMemory::poison() {
  for (Rank& rank : ranks_) {
    for (std::vector<double>& values : rank.values) std::ranges::fill(values, kPoison);
  }
}

void ReferenceMemory::poison(std::int32_t rank, const View& view) {
  write(rank, view, std::vector<double>(static_cast<std::size_t>(view.elements()), kPoison));
}

ReferenceMemory::Place ReferenceMemory::place(const View& view, std::int64_t index) {
  const auto row = static_cast<std::int32_t>(index / view.cols);
  const auto col = static_cast<std::int32_t>(index % view.cols);
  const std::int32_t strip = row / view.rows;
  return {view.row + strip * view.row_step + row % view.rows,
          view.col + strip * view.col_step + col};
}

std::span<const double> ReferenceMemory::row(std::int32_t rank, const View& view,
                                             std::int64_t row) const {
  const Place first = place(view, row * view.cols);
  const std::int64_t width = tensor(rank, view.tensor).cols;
  const std::vector<double>& values = ranks_[static_cast<std::size_t>(rank)].values[view.tensor];
  return std::span(values).subspan(static_cast<std::size_t>(first.row * width + first.col),
                                   static_cast<std::size_t>(view.cols));
}

std::vector<double> ReferenceMemory::read(std::int32_t rank, const View& view) const {
  std::vector<double> packed;
  packed.reserve(static_cast<std::size_t>(view.elements()));
  for (std::int64_t r = 0; r < view.total_rows(); ++r) {
    const std::span<const double> values = row(rank, view, r);
    packed.insert(packed.end(), values.begin(), values.end());
  }
  return packed;
}

void ReferenceMemory::write(std::int32_t rank, const View& view, std::span<const double> packed) {
  if (std::ssize(packed) != view.elements()) {
    throw std::logic_error("ReferenceMemory::write: sizes differ");
  }
  const Tensor& target = tensor(rank, view.tensor);
  std::vector<double>& values = ranks_[static_cast<std::size_t>(rank)].values[view.tensor];
  for (std::int64_t r = 0; r < view.total_rows(); ++r) {
    const Place first = place(view, r * view.cols);
    double* out =
        &values[static_cast<std::size_t>(std::int64_t{first.row} * target.cols + first.col)];
    const double* in = &packed[static_cast<std::size_t>(r * view.cols)];
    for (std::int32_t c = 0; c < view.cols; ++c) out[c] = rounded(in[c], target.dtype);
  }
}

}  // namespace commfuse
