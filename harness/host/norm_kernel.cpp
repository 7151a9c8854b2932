// SPDX-License-Identifier: Apache-2.0
#include "harness/host/norm_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>

#include "harness/host/float_chunks.h"
#include "harness/host/runs.h"
#include "harness/host/simd.h"

namespace commfuse {
namespace {

COMMFUSE_SIMD float squares(const float* x, std::int64_t elements) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < elements; ++i) sum += x[i] * x[i];
  return sum;
}

COMMFUSE_SIMD float products(const float* dy, const float* gamma, const float* x,
                             std::int64_t elements) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < elements; ++i) sum += dy[i] * gamma[i] * x[i];
  return sum;
}

// What is written may be what is read (ivdep: element i depends on elements i alone).

COMMFUSE_SIMD void scale(const float* x, float factor, const float* gamma, float* y,
                         std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) y[i] = x[i] * factor * gamma[i];
}

COMMFUSE_SIMD void gradient(const float* dy, const float* x, const float* gamma, float along,
                            float factor, float* dx, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) dx[i] = (dy[i] * gamma[i] - x[i] * along) * factor;
}

COMMFUSE_SIMD void add_products(const float* dy, const float* x, float factor, float* sum,
                                std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) sum[i] += x[i] * factor * dy[i];
}

COMMFUSE_SIMD void add(const float* more, float* sum, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) sum[i] += more[i];
}

/// Where a packed row of a view starts, in elements.
std::int64_t offset_of(const View& view, const Storage& storage, std::int64_t row) {
  return packed_row_offset(view, storage.tensor(view.tensor), row);
}

/// 1 / rms of the row of x that starts at `offset`.
float inverse_rms(const View& x, const Storage& storage, std::int64_t offset) {
  alignas(64) Chunk space;
  float sum = 0;
  for_chunks(x.cols, [&](std::int64_t col, std::int64_t elements) {
    sum += squares(floats_at(storage, x.tensor, offset + col, elements, space), elements);
  });
  const float mean = sum / static_cast<float>(x.cols);
  return 1.0F / std::sqrt(mean + static_cast<float>(kNormEpsilon));
}

std::int64_t floats_of_gamma(const View& gamma, const Storage& storage) {
  return is_narrow(storage.tensor(gamma.tensor).dtype) ? gamma.cols : 0;
}

/// Where it lies, or expanded into the workspace.
const float* gamma_floats(const View& gamma, const Storage& storage, float* workspace) {
  if (floats_of_gamma(gamma, storage) == 0) {
    return reinterpret_cast<const float*>(storage.at(gamma));
  }
  storage.read(gamma, {workspace, static_cast<std::size_t>(gamma.cols)});
  return workspace;
}

void require_fit(const Compute& op, const Storage& storage) {
  if (const std::string reason = misfit(op); !reason.empty()) {
    const View target = writes(op).front();
    throw std::invalid_argument(fmt::format("cannot compute {} of a norm: {}",
                                            describe(target, storage.tensor(target.tensor)),
                                            reason));
  }
}

void run_row(const NormGradient& op, const Storage& storage, const float* gamma, std::int64_t row) {
  alignas(64) Chunk dy_space;
  alignas(64) Chunk x_space;
  alignas(64) Chunk dx_space;
  const std::int64_t x_row = offset_of(op.x, storage, row);
  const std::int64_t dy_row = offset_of(op.dy, storage, row);
  const std::int64_t dx_row = offset_of(op.dx, storage, row);
  const auto x = [&](std::int64_t col, std::int64_t elements) {
    return floats_at(storage, op.x.tensor, x_row + col, elements, x_space);
  };
  const auto dy = [&](std::int64_t col, std::int64_t elements) {
    return floats_at(storage, op.dy.tensor, dy_row + col, elements, dy_space);
  };
  const float factor = inverse_rms(op.x, storage, x_row);
  float sum = 0;
  for_chunks(op.x.cols, [&](std::int64_t col, std::int64_t elements) {
    sum += products(dy(col, elements), gamma + col, x(col, elements), elements);
  });
  const float along = sum / static_cast<float>(op.x.cols) * factor * factor;
  for_chunks(op.x.cols, [&](std::int64_t col, std::int64_t elements) {
    const ChunkTarget dx(storage, op.dx.tensor, dx_row + col, dx_space);
    gradient(dy(col, elements), x(col, elements), gamma + col, along, factor, dx.floats(),
             elements);
    dx.store(elements);
  });
}

void add_row(const GammaGradient& op, const Storage& storage, std::int64_t row, float* sums) {
  alignas(64) Chunk dy_space;
  alignas(64) Chunk x_space;
  const std::int64_t x_row = offset_of(op.x, storage, row);
  const std::int64_t dy_row = offset_of(op.dy, storage, row);
  const float factor = inverse_rms(op.x, storage, x_row);
  for_chunks(op.x.cols, [&](std::int64_t col, std::int64_t elements) {
    add_products(floats_at(storage, op.dy.tensor, dy_row + col, elements, dy_space),
                 floats_at(storage, op.x.tensor, x_row + col, elements, x_space), factor,
                 sums + col, elements);
  });
}

}  // namespace

void check_shapes(const Norm& op, const Storage& storage) { require_fit(op, storage); }
void check_shapes(const NormGradient& op, const Storage& storage) { require_fit(op, storage); }
void check_shapes(const GammaGradient& op, const Storage& storage) { require_fit(op, storage); }

std::int64_t workspace_floats(const Norm& op, const Storage& storage) {
  return floats_of_gamma(op.gamma, storage);
}
std::int64_t workspace_floats(const NormGradient& op, const Storage& storage) {
  return floats_of_gamma(op.gamma, storage);
}
std::int64_t workspace_floats(const GammaGradient& op, const Storage& /*storage*/) {
  return op.d.cols;
}

void run(const Norm& op, const Storage& storage, float* workspace) {
  alignas(64) Chunk x_space;
  alignas(64) Chunk y_space;
  const float* gamma = gamma_floats(op.gamma, storage, workspace);
  for (std::int64_t row = 0; row < op.x.total_rows(); ++row) {
    const std::int64_t x = offset_of(op.x, storage, row);
    const std::int64_t y_row = offset_of(op.y, storage, row);
    const float factor = inverse_rms(op.x, storage, x);
    for_chunks(op.x.cols, [&](std::int64_t col, std::int64_t elements) {
      const ChunkTarget y(storage, op.y.tensor, y_row + col, y_space);
      scale(floats_at(storage, op.x.tensor, x + col, elements, x_space), factor, gamma + col,
            y.floats(), elements);
      y.store(elements);
    });
  }
}

void run(const NormGradient& op, const Storage& storage, float* workspace) {
  const float* gamma = gamma_floats(op.gamma, storage, workspace);
  for (std::int64_t row = 0; row < op.x.total_rows(); ++row) run_row(op, storage, gamma, row);
}

void run(const GammaGradient& op, const Storage& storage, float* workspace) {
  std::fill(workspace, workspace + op.d.cols, 0.0F);
  for (std::int64_t row = 0; row < op.x.total_rows(); ++row) add_row(op, storage, row, workspace);
  alignas(64) Chunk space;
  const std::int64_t d = offset_of(op.d, storage, 0);
  const DType dtype = storage.tensor(op.d.tensor).dtype;
  for_chunks(op.d.cols, [&](std::int64_t col, std::int64_t elements) {
    float* sum = workspace + col;
    if (op.adds) add(floats_at(storage, op.d.tensor, d + col, elements, space), sum, elements);
    std::byte* const target = storage.data(op.d.tensor) + (d + col) * bytes_of(dtype);
    store_floats(dtype, sum, target, elements);
  });
}

}  // namespace commfuse
