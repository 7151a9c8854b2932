// SPDX-License-Identifier: Apache-2.0
#include "harness/host/elementwise_kernel.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

#include "harness/host/float_chunks.h"
#include "harness/host/runs.h"
#include "harness/host/simd.h"
#include "harness/host/vector_math.h"

namespace commfuse {
namespace {

// y may be x (ivdep: element i of y depends on element i of x alone).

COMMFUSE_SIMD void relu(const float* x, float* y, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) y[i] = (x[i] < 0.0F ? 0.0F : x[i]) + 0.0F;
}

COMMFUSE_SIMD void gelu(const float* x, float* y, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const float tail = normal_tail(x[i]);
    y[i] = x[i] * (x[i] < 0.0F ? tail : 1.0F - tail);
  }
}

COMMFUSE_SIMD void swiglu(const float* gate, const float* up, float* y, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    y[i] = gate[i] / (1.0F + vector_exp(-gate[i])) * up[i];
  }
}

/// Elements [offset, offset + elements) of y's block from those of x's block at x_offset.
void run_chunk(const Elementwise& op, const Storage& storage, std::int64_t y_offset,
               std::int64_t x_offset, std::int64_t elements) {
  alignas(64) Chunk x_space;
  alignas(64) Chunk up_space;
  alignas(64) Chunk y_space;
  const ChunkTarget target(storage, op.y.tensor, y_offset, y_space);
  float* y = target.floats();
  const float* x = floats_at(storage, op.x.tensor, x_offset, elements, x_space);
  switch (op.kind) {
    case Activation::relu:
      relu(x, y, elements);
      break;
    case Activation::gelu:
      gelu(x, y, elements);
      break;
    case Activation::swiglu:
      swiglu(x, floats_at(storage, op.x.tensor, x_offset + op.y.cols, elements, up_space), y,
             elements);
      break;
  }
  target.store(elements);
}

}  // namespace

void check_shapes(const Elementwise& op, const Storage& storage) {
  const std::int64_t x_cols = std::int64_t{op.y.cols} * (op.kind == Activation::swiglu ? 2 : 1);
  if (op.x.total_rows() != op.y.total_rows() || op.x.cols != x_cols) {
    throw std::invalid_argument(fmt::format("cannot compute {} elementwise from {}",
                                            describe(op.y, storage.tensor(op.y.tensor)),
                                            describe(op.x, storage.tensor(op.x.tensor))));
  }
}

void run(const Elementwise& op, const Storage& storage) {
  for (std::int64_t row = 0; row < op.y.total_rows(); ++row) {
    const std::int64_t y = packed_row_offset(op.y, storage.tensor(op.y.tensor), row);
    const std::int64_t x = packed_row_offset(op.x, storage.tensor(op.x.tensor), row);
    for_chunks(op.y.cols, [&](std::int64_t col, std::int64_t elements) {
      run_chunk(op, storage, y + col, x + col, elements);
    });
  }
}

}  // namespace commfuse
