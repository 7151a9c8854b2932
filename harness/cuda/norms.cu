// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/norms.h"

#include "harness/cuda/block_reduction.cuh"
#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device_rows.cuh"

namespace commfuse {

// ---- kernels: found by these names in traces, and by their host twins ----

/// A poisoned dy or x must not vanish where the slope is 0.
__device__ inline float relu_gradient(float dy, float x) {
  const float zero = x <= 0.0F ? 0.0F : x;  // or NaN
  const float stopped = dy != dy ? dy : zero;
  return x > 0.0F ? dy : stopped;
}

__device__ inline float gelu_gradient(float dy, float x) {
  constexpr float kRootHalf = 0.70710678118654752F;
  constexpr float kInverseRootTwoPi = 0.39894228040143268F;
  return dy * (0.5F * erfcf(-x * kRootHalf) + x * (kInverseRootTwoPi * expf(-0.5F * x * x)));
}

/// From dy the gradient of the gate, from up its own.
template <int Elements>
__device__ void swiglu_gradient(float (&dy)[Elements], const float (&gate)[Elements],
                                float (&up)[Elements]) {
#pragma unroll
  for (int e = 0; e < Elements; ++e) {
    const float sigmoid = 1.0F / (1.0F + expf(-gate[e]));
    const float silu = gate[e] * sigmoid;
    const float of_gate = dy[e] * up[e] * (sigmoid + silu * (1.0F - sigmoid));
    up[e] = dy[e] * silu;
    dy[e] = of_gate;
  }
}

template <class T, int Elements>
__global__ void apply_activation_gradient(DeviceView dx, DeviceView dy, DeviceView x,
                                          Activation kind) {
  const std::uint32_t row = own_row();
  if (row >= row_count(dy)) return;
  T* to = row_of<T>(dx, row);
  const T* above = row_of<const T>(dy, row);
  const T* from = row_of<const T>(x, row);
  for (std::int64_t i = first_vector() * Elements; i < dy.cols; i += vector_step() * Elements) {
    float gradient[Elements];
    float values[Elements];
    load(above + i, gradient);
    load(from + i, values);
    if (kind == Activation::swiglu) {
      float up[Elements];
      load(from + dy.cols + i, up);
      swiglu_gradient(gradient, values, up);
      store(up, to + dy.cols + i);
    } else {
#pragma unroll
      for (int e = 0; e < Elements; ++e) {
        gradient[e] = kind == Activation::gelu ? gelu_gradient(gradient[e], values[e])
                                               : relu_gradient(gradient[e], values[e]);
      }
    }
    store(gradient, to + i);
  }
}

// A block of kRowThreads has one row. What it goes over again it finds in the cache.

/// Calls act(first element) for the thread's vectors of a row.
template <int Elements, class Act>
__device__ void for_own_vectors(std::int32_t cols, Act act) {
  for (std::int64_t i = std::int64_t{threadIdx.x} * Elements; i < cols;
       i += std::int64_t{kRowThreads} * Elements) {
    act(i);
  }
}

__device__ inline float inverse_of(float squares, std::int32_t cols) {
  return 1.0F / sqrtf(squares / static_cast<float>(cols) + static_cast<float>(kNormEpsilon));
}

template <int Elements, class T>
__device__ float inverse_rms(const T* row, std::int32_t cols) {
  float squares = 0.0F;
  for_own_vectors<Elements>(cols, [&](std::int64_t i) {
    float values[Elements];
    load(row + i, values);
#pragma unroll
    for (const float value : values) squares += value * value;
  });
  return inverse_of(over_block<Sum>(squares), cols);
}

template <class T, int Elements>
__global__ void norm_rows(DeviceView y, DeviceView x, DeviceView gamma) {
  T* to = row_of<T>(y, blockIdx.x);
  const T* from = row_of<const T>(x, blockIdx.x);
  const T* factors = static_cast<const T*>(gamma.data);
  const float inverse = inverse_rms<Elements>(from, x.cols);
  for_own_vectors<Elements>(x.cols, [&](std::int64_t i) {
    float values[Elements];
    float factor[Elements];
    load(from + i, values);
    load(factors + i, factor);
#pragma unroll
    for (int e = 0; e < Elements; ++e) values[e] *= inverse * factor[e];
    store(values, to + i);
  });
}

template <class T, int Elements>
__global__ void norm_gradient_rows(DeviceView dx, DeviceView dy, DeviceView x, DeviceView gamma) {
  T* to = row_of<T>(dx, blockIdx.x);
  const T* above = row_of<const T>(dy, blockIdx.x);
  const T* from = row_of<const T>(x, blockIdx.x);
  const T* factors = static_cast<const T*>(gamma.data);
  float squares = 0.0F;
  float products = 0.0F;
  for_own_vectors<Elements>(x.cols, [&](std::int64_t i) {
    float values[Elements];
    float gradient[Elements];
    float factor[Elements];
    load(from + i, values);
    load(above + i, gradient);
    load(factors + i, factor);
#pragma unroll
    for (int e = 0; e < Elements; ++e) {
      squares += values[e] * values[e];
      products += gradient[e] * factor[e] * values[e];
    }
  });
  const float inverse = inverse_of(over_block<Sum>(squares), x.cols);
  const float along = over_block<Sum>(products) / static_cast<float>(x.cols) * inverse * inverse;
  for_own_vectors<Elements>(x.cols, [&](std::int64_t i) {
    float values[Elements];
    float gradient[Elements];
    float factor[Elements];
    load(from + i, values);
    load(above + i, gradient);
    load(factors + i, factor);
#pragma unroll
    for (int e = 0; e < Elements; ++e) {
      gradient[e] = (gradient[e] * factor[e] - values[e] * along) * inverse;
    }
    store(gradient, to + i);
  });
}

template <class T, int Elements>
__global__ void inverse_rms_rows(float* inverse, DeviceView x) {
  const float result = inverse_rms<Elements>(row_of<const T>(x, blockIdx.x), x.cols);
  if (threadIdx.x == 0) inverse[blockIdx.x] = result;
}

/// Rows of the grid are groups.
template <class T, int Elements>
__global__ void gamma_sums(float* sums, DeviceView dy, DeviceView x, const float* inverse,
                           std::int32_t group_rows) {
  const std::uint32_t rows = row_count(x);
  const std::uint32_t group = own_row();
  const std::uint32_t first = group * static_cast<std::uint32_t>(group_rows);
  if (first >= rows) return;
  const std::uint32_t end = min(rows, first + static_cast<std::uint32_t>(group_rows));
  for (std::int64_t i = first_vector() * Elements; i < x.cols; i += vector_step() * Elements) {
    float sum[Elements] = {};
    for (std::uint32_t row = first; row < end; ++row) {
      float gradient[Elements];
      float values[Elements];
      load(row_of<const T>(dy, row) + i, gradient);
      load(row_of<const T>(x, row) + i, values);
#pragma unroll
      for (int e = 0; e < Elements; ++e) sum[e] += values[e] * inverse[row] * gradient[e];
    }
    store(sum, sums + std::int64_t{group} * x.cols + i);
  }
}

template <class T, int Elements>
__global__ void gamma_total(DeviceView d, const float* sums, std::int32_t groups, bool adds) {
  if (own_row() > 0) return;
  T* to = static_cast<T*>(d.data);
  for (std::int64_t i = first_vector() * Elements; i < d.cols; i += vector_step() * Elements) {
    float total[Elements] = {};
    if (adds) load(to + i, total);
    for (std::int64_t group = 0; group < groups; ++group) {
      float sum[Elements];
      load(sums + group * d.cols + i, sum);
#pragma unroll
      for (int e = 0; e < Elements; ++e) total[e] += sum[e];
    }
    store(total, to + i);
  }
}

namespace {

/// Calls launch(a value of the elements' type, the elements of an access as a constant).
template <class Launch>
void with_vectors(DType dtype, bool vectors, const Launch& launch) {
  with_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    if (vectors) {
      launch(element, std::integral_constant<int, kElements<T>>{});
    } else {
      launch(element, std::integral_constant<int, 1>{});
    }
  });
  CFB_CUDA(cudaGetLastError());
}

dim3 block_per_row(const DeviceView& view) {
  return dim3(static_cast<unsigned>(view.total_rows()));
}

}  // namespace

void launch_activation_gradient(const DeviceView& dx, const DeviceView& dy, const DeviceView& x,
                                Activation kind, cudaStream_t stream) {
  if (dx.elements() == 0) return;
  with_vectors(dx.dtype, vectors_fit({dx, dy, x}), [&](auto element, auto elements) {
    const auto [grid, block] = row_grid(dy.total_rows(), dy.cols / elements.value);
    apply_activation_gradient<decltype(element), elements.value>
        <<<grid, block, 0, stream>>>(dx, dy, x, kind);
  });
}

void launch_norm(const DeviceView& y, const DeviceView& x, const DeviceView& gamma,
                 cudaStream_t stream) {
  if (y.elements() == 0) return;
  with_vectors(y.dtype, vectors_fit({y, x, gamma}), [&](auto element, auto elements) {
    norm_rows<decltype(element), elements.value>
        <<<block_per_row(y), kRowThreads, 0, stream>>>(y, x, gamma);
  });
}

void launch_norm_gradient(const DeviceView& dx, const DeviceView& dy, const DeviceView& x,
                          const DeviceView& gamma, cudaStream_t stream) {
  if (dx.elements() == 0) return;
  with_vectors(dx.dtype, vectors_fit({dx, dy, x, gamma}), [&](auto element, auto elements) {
    norm_gradient_rows<decltype(element), elements.value>
        <<<block_per_row(dx), kRowThreads, 0, stream>>>(dx, dy, x, gamma);
  });
}

void launch_inverse_rms(float* inverse, const DeviceView& x, cudaStream_t stream) {
  if (x.elements() == 0) return;
  with_vectors(x.dtype, vectors_fit({x}), [&](auto element, auto elements) {
    inverse_rms_rows<decltype(element), elements.value>
        <<<block_per_row(x), kRowThreads, 0, stream>>>(inverse, x);
  });
}

void launch_gamma_sums(float* sums, const DeviceView& dy, const DeviceView& x, const float* inverse,
                       std::int32_t group_rows, cudaStream_t stream) {
  if (x.elements() == 0) return;
  const std::int64_t groups = (x.total_rows() + group_rows - 1) / group_rows;
  with_vectors(x.dtype, vectors_fit({dy, x}), [&](auto element, auto elements) {
    const auto [grid, block] = row_grid(groups, x.cols / elements.value);
    gamma_sums<decltype(element), elements.value>
        <<<grid, block, 0, stream>>>(sums, dy, x, inverse, group_rows);
  });
}

void launch_gamma_total(const DeviceView& d, const float* sums, std::int32_t groups, bool adds,
                        cudaStream_t stream) {
  if (d.elements() == 0) return;
  with_vectors(d.dtype, vectors_fit({d}), [&](auto element, auto elements) {
    const auto [grid, block] = row_grid(1, d.cols / elements.value);
    gamma_total<decltype(element), elements.value>
        <<<grid, block, 0, stream>>>(d, sums, groups, adds);
  });
}

}  // namespace commfuse
