// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/twins/norm_twins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "suite/compute.h"
#include "tests/fakecuda/twins/elements.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

float at(const DeviceView& view, std::int64_t row, std::int64_t col) {
  return load(view.data, row_offset(view, row) + col, view.dtype);
}
void put(float value, const DeviceView& view, std::int64_t row, std::int64_t col) {
  store(value, view.data, row_offset(view, row) + col, view.dtype);
}

/// A block has a row, and 256 threads, for its reductions are over 8 warps.
void require_block_per_row(std::string_view kernel, const Launch& launch, std::int64_t rows) {
  const auto& [grid, block] = std::tie(launch.grid, launch.block);
  if (grid.x == static_cast<unsigned>(rows) && grid.y == 1 && block.x == 256 && block.y == 1) {
    return;
  }
  throw Finding(Verdict::Kind::host_error,
                fmt::format("{}: a grid of {} x {} blocks of {} x {} threads for {} rows", kernel,
                            grid.x, grid.y, block.x, block.y, rows));
}

void append_floats(std::vector<Range>& ranges, const float* data, std::int64_t floats) {
  append(ranges, data, floats * static_cast<std::int64_t>(sizeof(float)));
}

/// Vectors of fp32 from `data` on.
void require_aligned(std::string_view kernel, int elements, const float* data) {
  const auto bytes = static_cast<std::uintptr_t>(elements) * sizeof(float);
  if (reinterpret_cast<std::uintptr_t>(data) % bytes == 0) return;
  throw Finding(Verdict::Kind::host_error,
                fmt::format("{}: vectors of {} sums are not aligned", kernel, elements));
}

float inverse_rms(const DeviceView& x, std::int64_t row) {
  float squares = 0;
  for (std::int64_t col = 0; col < x.cols; ++col) squares += at(x, row, col) * at(x, row, col);
  return 1.0F / std::sqrt(squares / static_cast<float>(x.cols) + static_cast<float>(kNormEpsilon));
}

float relu_gradient(float dy, float x) {
  if (x > 0.0F || std::isnan(dy)) return dy;
  return std::isnan(x) ? x : 0.0F;
}
float gelu_gradient(float dy, float x) {
  constexpr float kRootHalf = 0.70710678118654752F;
  constexpr float kInverseRootTwoPi = 0.39894228040143268F;
  return dy *
         (0.5F * std::erfc(-x * kRootHalf) + x * (kInverseRootTwoPi * std::exp(-0.5F * x * x)));
}

void run_activation_gradient(const DeviceView& dx, const DeviceView& dy, const DeviceView& x,
                             Activation kind) {
  for (std::int64_t row = 0; row < dy.total_rows(); ++row) {
    for (std::int64_t col = 0; col < dy.cols; ++col) {
      const float above = at(dy, row, col);
      const float in = at(x, row, col);
      if (kind == Activation::swiglu) {
        const float up = at(x, row, dy.cols + col);
        const float sigmoid = 1.0F / (1.0F + std::exp(-in));
        put(above * up * (sigmoid + in * sigmoid * (1.0F - sigmoid)), dx, row, col);
        put(above * in * sigmoid, dx, row, dy.cols + col);
      } else {
        put(kind == Activation::relu ? relu_gradient(above, in) : gelu_gradient(above, in), dx, row,
            col);
      }
    }
  }
}

void run_norm(const DeviceView& y, const DeviceView& x, const DeviceView& gamma) {
  for (std::int64_t row = 0; row < x.total_rows(); ++row) {
    const float inverse = inverse_rms(x, row);
    for (std::int64_t col = 0; col < x.cols; ++col) {
      put(at(x, row, col) * inverse * at(gamma, 0, col), y, row, col);
    }
  }
}

void run_norm_gradient(const DeviceView& dx, const DeviceView& dy, const DeviceView& x,
                       const DeviceView& gamma) {
  for (std::int64_t row = 0; row < x.total_rows(); ++row) {
    const float inverse = inverse_rms(x, row);
    float products = 0;
    for (std::int64_t col = 0; col < x.cols; ++col) {
      products += at(dy, row, col) * at(gamma, 0, col) * at(x, row, col);
    }
    const float along = products / static_cast<float>(x.cols) * inverse * inverse;
    for (std::int64_t col = 0; col < x.cols; ++col) {
      const float scaled = at(dy, row, col) * at(gamma, 0, col);
      put((scaled - at(x, row, col) * along) * inverse, dx, row, col);
    }
  }
}

void run_gamma_sums(float* sums, const DeviceView& dy, const DeviceView& x, const float* inverse,
                    std::int64_t group_rows) {
  const std::int64_t rows = x.total_rows();
  for (std::int64_t first = 0; first < rows; first += group_rows) {
    for (std::int64_t col = 0; col < x.cols; ++col) {
      float sum = 0;
      for (std::int64_t row = first; row < std::min(first + group_rows, rows); ++row) {
        sum += at(x, row, col) * inverse[row] * at(dy, row, col);
      }
      sums[first / group_rows * x.cols + col] = sum;
    }
  }
}

void run_gamma_total(const DeviceView& d, const float* sums, std::int64_t groups, bool adds) {
  for (std::int64_t col = 0; col < d.cols; ++col) {
    float total = adds ? at(d, 0, col) : 0.0F;
    for (std::int64_t group = 0; group < groups; ++group) total += sums[group * d.cols + col];
    put(total, d, 0, col);
  }
}

}  // namespace

template <int Elements>
Work apply_activation_gradient(const Launch& launch) {
  constexpr std::string_view kKernel = "apply_activation_gradient";
  const auto dx = argument<DeviceView>(launch, 0);
  const auto dy = argument<DeviceView>(launch, 1);
  const auto x = argument<DeviceView>(launch, 2);
  const auto kind = argument<Activation>(launch, 3);
  require_rows_covered(kKernel, launch, dy.total_rows());
  require_vectors(kKernel, Elements, {dx, dy, x});
  Work work = work_of(std::string(kKernel), dx, {dy, x});
  work.run = [=] { run_activation_gradient(dx, dy, x, kind); };
  return work;
}

template <int Elements>
Work norm_rows(const Launch& launch) {
  const auto y = argument<DeviceView>(launch, 0);
  const auto x = argument<DeviceView>(launch, 1);
  const auto gamma = argument<DeviceView>(launch, 2);
  require_block_per_row("norm_rows", launch, y.total_rows());
  require_vectors("norm_rows", Elements, {y, x, gamma});
  Work work = work_of("norm_rows", y, {x, gamma});
  work.run = [=] { run_norm(y, x, gamma); };
  return work;
}

template <int Elements>
Work norm_gradient_rows(const Launch& launch) {
  const auto dx = argument<DeviceView>(launch, 0);
  const auto dy = argument<DeviceView>(launch, 1);
  const auto x = argument<DeviceView>(launch, 2);
  const auto gamma = argument<DeviceView>(launch, 3);
  require_block_per_row("norm_gradient_rows", launch, dx.total_rows());
  require_vectors("norm_gradient_rows", Elements, {dx, dy, x, gamma});
  Work work = work_of("norm_gradient_rows", dx, {dy, x, gamma});
  work.run = [=] { run_norm_gradient(dx, dy, x, gamma); };
  return work;
}

template <int Elements>
Work inverse_rms_rows(const Launch& launch) {
  auto* const inverse = argument<float*>(launch, 0);
  const auto x = argument<DeviceView>(launch, 1);
  require_block_per_row("inverse_rms_rows", launch, x.total_rows());
  require_vectors("inverse_rms_rows", Elements, {x});
  Work work{.name = "inverse_rms_rows", .reads = {}, .writes = {}, .run = {}};
  append(work.reads, x, bytes_of(x.dtype));
  append_floats(work.writes, inverse, x.total_rows());
  work.duration_ns = duration_ns(work.reads, work.writes);
  work.run = [=] {
    for (std::int64_t row = 0; row < x.total_rows(); ++row) inverse[row] = inverse_rms(x, row);
  };
  return work;
}

template <int Elements>
Work gamma_sums(const Launch& launch) {
  auto* const sums = argument<float*>(launch, 0);
  const auto dy = argument<DeviceView>(launch, 1);
  const auto x = argument<DeviceView>(launch, 2);
  const auto* const inverse = argument<const float*>(launch, 3);
  const auto group_rows = argument<std::int32_t>(launch, 4);
  const std::int64_t groups = (x.total_rows() + group_rows - 1) / group_rows;
  require_rows_covered("gamma_sums", launch, groups);
  require_vectors("gamma_sums", Elements, {dy, x});
  require_aligned("gamma_sums", Elements, sums);
  Work work{.name = "gamma_sums", .reads = {}, .writes = {}, .run = {}};
  append(work.reads, dy, bytes_of(dy.dtype));
  append(work.reads, x, bytes_of(x.dtype));
  append_floats(work.reads, inverse, x.total_rows());
  append_floats(work.writes, sums, groups * x.cols);
  work.duration_ns = duration_ns(work.reads, work.writes);
  work.run = [=] { run_gamma_sums(sums, dy, x, inverse, group_rows); };
  return work;
}

template <int Elements>
Work gamma_total(const Launch& launch) {
  const auto d = argument<DeviceView>(launch, 0);
  const auto* const sums = argument<const float*>(launch, 1);
  const auto groups = argument<std::int32_t>(launch, 2);
  const auto adds = argument<bool>(launch, 3);
  require_rows_covered("gamma_total", launch, 1);
  require_vectors("gamma_total", Elements, {d});
  require_aligned("gamma_total", Elements, sums);
  Work work{.name = "gamma_total", .reads = {}, .writes = {}, .run = {}};
  append_floats(work.reads, sums, std::int64_t{groups} * d.cols);
  if (adds) append(work.reads, d, bytes_of(d.dtype));
  append(work.writes, d, bytes_of(d.dtype));
  work.duration_ns = duration_ns(work.reads, work.writes);
  work.run = [=] { run_gamma_total(d, sums, groups, adds); };
  return work;
}

template Work apply_activation_gradient<1>(const Launch&);
template Work apply_activation_gradient<4>(const Launch&);
template Work apply_activation_gradient<8>(const Launch&);
template Work norm_rows<1>(const Launch&);
template Work norm_rows<4>(const Launch&);
template Work norm_rows<8>(const Launch&);
template Work norm_gradient_rows<1>(const Launch&);
template Work norm_gradient_rows<4>(const Launch&);
template Work norm_gradient_rows<8>(const Launch&);
template Work inverse_rms_rows<1>(const Launch&);
template Work inverse_rms_rows<4>(const Launch&);
template Work inverse_rms_rows<8>(const Launch&);
template Work gamma_sums<1>(const Launch&);
template Work gamma_sums<4>(const Launch&);
template Work gamma_sums<8>(const Launch&);
template Work gamma_total<1>(const Launch&);
template Work gamma_total<4>(const Launch&);
template Work gamma_total<8>(const Launch&);

}  // namespace commfuse::fake
