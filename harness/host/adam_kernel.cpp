// SPDX-License-Identifier: Apache-2.0
#include "harness/host/adam_kernel.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "harness/host/float_chunks.h"
#include "harness/host/float_conversion.h"
#include "harness/host/runs.h"
#include "harness/host/simd.h"
#include "suite/adam_factors.h"

namespace commfuse {
namespace {

/// Elements of the state of a step.
template <class Float>
struct AdamState {
  Float* w = nullptr;
  Float* m = nullptr;
  Float* v = nullptr;
};

// What is written may be what it replaces (ivdep: element i depends on elements i alone).

COMMFUSE_SIMD void adam_chunk(const AdamState<const float>& from, const float* g,
                              const AdamState<float>& to, std::int64_t elements) {
  const float* w = from.w;
  const float* m = from.m;
  const float* v = from.v;
  float* new_w = to.w;
  float* new_m = to.m;
  float* new_v = to.v;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    const float mean = kAdamBeta1F * m[i] + kAdamRest1F * g[i];
    const float squares = kAdamBeta2F * std::abs(v[i]) + kAdamRest2F * (g[i] * g[i]);
    const float divisor = std::sqrt(squares * kAdamUnbiasedF) + kAdamEpsilonF;
    new_w[i] = kAdamKeptF * w[i] - kAdamStepSizeF * (mean / divisor);
    new_m[i] = mean;
    new_v[i] = squares;
  }
}

/// Where packed row `row` of an fp32 view starts.
float* row_floats(const View& view, const Storage& storage, std::int64_t row) {
  const std::int64_t offset = packed_row_offset(view, storage.tensor(view.tensor), row);
  return reinterpret_cast<float*>(storage.data(view.tensor)) + offset;
}

void step_row(const Adam& op, const Storage& storage, std::int64_t row) {
  alignas(64) Chunk g_space;
  const AdamState<const float> from{row_floats(op.w, storage, row), row_floats(op.m, storage, row),
                                    row_floats(op.v, storage, row)};
  const AdamState<float> to{row_floats(op.new_w, storage, row), row_floats(op.new_m, storage, row),
                            row_floats(op.new_v, storage, row)};
  const std::int64_t g = packed_row_offset(op.g, storage.tensor(op.g.tensor), row);
  const std::int64_t copy =
      op.copy ? packed_row_offset(*op.copy, storage.tensor(op.copy->tensor), row) : 0;
  for_chunks(op.new_w.cols, [&](std::int64_t col, std::int64_t elements) {
    adam_chunk({from.w + col, from.m + col, from.v + col},
               floats_at(storage, op.g.tensor, g + col, elements, g_space),
               {to.w + col, to.m + col, to.v + col}, elements);
    if (!op.copy) return;
    const DType dtype = storage.tensor(op.copy->tensor).dtype;
    store_floats(dtype, to.w + col, storage.data(op.copy->tensor) + (copy + col) * bytes_of(dtype),
                 elements);
  });
}

}  // namespace

void check_shapes(const Adam& op, const Storage& storage) {
  if (const std::string reason = misfit(op); !reason.empty()) {
    throw std::invalid_argument(fmt::format("cannot compute {} of a step of Adam: {}",
                                            describe(op.new_w, storage.tensor(op.new_w.tensor)),
                                            reason));
  }
  for (const View& view : {op.new_w, op.new_m, op.new_v, op.w, op.m, op.v}) {
    const Tensor& tensor = storage.tensor(view.tensor);
    if (tensor.dtype == DType::f32) continue;
    throw std::invalid_argument(
        fmt::format("Adam keeps {} {}, not fp32", name_of(tensor.dtype), describe(view, tensor)));
  }
}

void run(const Adam& op, const Storage& storage) {
  for (std::int64_t row = 0; row < op.new_w.total_rows(); ++row) step_row(op, storage, row);
}

}  // namespace commfuse
