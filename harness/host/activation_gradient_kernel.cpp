// SPDX-License-Identifier: Apache-2.0
#include "harness/host/activation_gradient_kernel.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "harness/host/float_chunks.h"
#include "harness/host/runs.h"
#include "harness/host/simd.h"
#include "harness/host/vector_math.h"

namespace commfuse {
namespace {

// dx may be x or dy (ivdep: element i of dx depends on elements i alone).

/// A poisoned dy or x must not vanish where the slope is 0.
COMMFUSE_SIMD void relu(const float* dy, const float* x, float* dx, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const float zero = x[i] <= 0.0F ? 0.0F : x[i];  // or NaN
    const float stopped = dy[i] != dy[i] ? dy[i] : zero;
    dx[i] = x[i] > 0.0F ? dy[i] : stopped;
  }
}

COMMFUSE_SIMD void gelu(const float* dy, const float* x, float* dx, std::int64_t elements) {
  constexpr float kInverseRootTwoPi = 0.398942280F;  // 1 / sqrt(2 pi)
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const float tail = normal_tail(x[i]);
    const float below = x[i] < 0.0F ? tail : 1.0F - tail;
    dx[i] = dy[i] * (below + x[i] * (kInverseRootTwoPi * half_square_exp(x[i])));
  }
}

/// Both halves at once: the second still needs the gate that the first may overwrite.
COMMFUSE_SIMD void swiglu(const float* dy, const float* gate, const float* up, float* dgate,
                          float* dup, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const float sigmoid = 1.0F / (1.0F + vector_exp(-gate[i]));
    const float above = dy[i];
    const float silu = gate[i] * sigmoid;
    const float slope = sigmoid + silu * (1.0F - sigmoid);
    dgate[i] = above * up[i] * slope;
    dup[i] = above * silu;
  }
}

/// Elements [offset, offset + elements) of dy's block; `x` and `dx` are offsets of the same ones.
void run_chunk(const ActivationGradient& op, const Storage& storage, std::int64_t dy_offset,
               std::int64_t x_offset, std::int64_t dx_offset, std::int64_t elements) {
  alignas(64) Chunk dy_space;
  alignas(64) Chunk x_space;
  alignas(64) Chunk up_space;
  alignas(64) Chunk dx_space;
  alignas(64) Chunk dup_space;
  const float* dy = floats_at(storage, op.dy.tensor, dy_offset, elements, dy_space);
  const float* x = floats_at(storage, op.x.tensor, x_offset, elements, x_space);
  const ChunkTarget dx(storage, op.dx.tensor, dx_offset, dx_space);
  switch (op.kind) {
    case Activation::relu:
      relu(dy, x, dx.floats(), elements);
      break;
    case Activation::gelu:
      gelu(dy, x, dx.floats(), elements);
      break;
    case Activation::swiglu: {
      const float* up = floats_at(storage, op.x.tensor, x_offset + op.dy.cols, elements, up_space);
      const ChunkTarget dup(storage, op.dx.tensor, dx_offset + op.dy.cols, dup_space);
      swiglu(dy, x, up, dx.floats(), dup.floats(), elements);
      dup.store(elements);
      break;
    }
  }
  dx.store(elements);
}

}  // namespace

void check_shapes(const ActivationGradient& op, const Storage& storage) {
  if (const std::string reason = misfit(op); !reason.empty()) {
    throw std::invalid_argument(fmt::format("cannot compute the gradient {}: {}",
                                            describe(op.dx, storage.tensor(op.dx.tensor)), reason));
  }
}

void run(const ActivationGradient& op, const Storage& storage) {
  for (std::int64_t row = 0; row < op.dy.total_rows(); ++row) {
    const std::int64_t dy = packed_row_offset(op.dy, storage.tensor(op.dy.tensor), row);
    const std::int64_t x = packed_row_offset(op.x, storage.tensor(op.x.tensor), row);
    const std::int64_t dx = packed_row_offset(op.dx, storage.tensor(op.dx.tensor), row);
    for_chunks(op.dy.cols, [&](std::int64_t col, std::int64_t elements) {
      run_chunk(op, storage, dy + col, x + col, dx + col, elements);
    });
  }
}

}  // namespace commfuse
