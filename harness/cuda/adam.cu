// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/adam.h"

#include <type_traits>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device_rows.cuh"
#include "suite/adam_factors.h"

namespace commfuse {

// ---- kernel: found by this name in traces, and by its host twin ----

/// G is the type of the gradient, C that of the copy.
template <class G, class C, int Elements>
__global__ void adam_rows(AdamViews views) {
  const std::uint32_t row = own_row();
  if (row >= row_count(views.new_w)) return;
  const float* from_w = row_of<const float>(views.w, row);
  const float* from_m = row_of<const float>(views.m, row);
  const float* from_v = row_of<const float>(views.v, row);
  const G* from_g = row_of<const G>(views.g, row);
  float* to_w = row_of<float>(views.new_w, row);
  float* to_m = row_of<float>(views.new_m, row);
  float* to_v = row_of<float>(views.new_v, row);
  C* copy = views.copy.data == nullptr ? nullptr : row_of<C>(views.copy, row);
  for (std::int64_t i = first_vector() * Elements; i < views.new_w.cols;
       i += vector_step() * Elements) {
    float w[Elements];
    float m[Elements];
    float v[Elements];
    float g[Elements];
    load(from_w + i, w);
    load(from_m + i, m);
    load(from_v + i, v);
    load(from_g + i, g);
#pragma unroll
    for (int e = 0; e < Elements; ++e) {
      m[e] = kAdamBeta1F * m[e] + kAdamRest1F * g[e];
      v[e] = kAdamBeta2F * fabsf(v[e]) + kAdamRest2F * (g[e] * g[e]);
      const float divisor = sqrtf(v[e] * kAdamUnbiasedF) + kAdamEpsilonF;
      w[e] = kAdamKeptF * w[e] - kAdamStepSizeF * (m[e] / divisor);
    }
    store(w, to_w + i);
    store(m, to_m + i);
    store(v, to_v + i);
    if (copy != nullptr) store(w, copy + i);
  }
}

namespace {

template <class G, class C, int Elements>
void adam_grid(const AdamViews& views, cudaStream_t stream) {
  const auto [grid, block] = row_grid(views.new_w.total_rows(), views.new_w.cols / Elements);
  adam_rows<G, C, Elements><<<grid, block, 0, stream>>>(views);
}

/// Vectors are those of fp32, which all but two of the views have.
template <class G, class C>
void adam_of(const AdamViews& views, cudaStream_t stream) {
  const bool copied = views.copy.data != nullptr;
  const bool vectors = vectors_fit({views.new_w, views.new_m, views.new_v, views.w, views.m,
                                    views.v, views.g, copied ? views.copy : views.g});
  vectors ? adam_grid<G, C, kElements<float>>(views, stream) : adam_grid<G, C, 1>(views, stream);
}

}  // namespace

void launch_adam(const AdamViews& views, cudaStream_t stream) {
  if (views.new_w.elements() == 0) return;
  with_element_type(views.g.dtype, [&](auto gradient) {
    using G = decltype(gradient);
    if (views.copy.data == nullptr) return adam_of<G, G>(views, stream);
    with_element_type(views.copy.dtype, [&](auto copied) {
      using C = decltype(copied);
      if constexpr (std::is_same_v<G, float> || std::is_same_v<G, C>) adam_of<G, C>(views, stream);
    });
  });
  CFB_CUDA(cudaGetLastError());
}

}  // namespace commfuse
