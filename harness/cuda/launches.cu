// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/launches.h"

#include <numeric>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device_rows.cuh"

namespace commfuse {

// ---- kernels: found by these names in traces, and by their host twins ----

/// Views in words. Rows of different lengths are cut into runs of `run` words, which divides both;
/// a thread has one run.
template <class Word>
__global__ void copy_words(DeviceView target, DeviceView source, std::int32_t run) {
  const auto in_target = static_cast<std::uint32_t>(target.cols / run);
  const auto in_source = static_cast<std::uint32_t>(source.cols / run);
  const std::uint32_t index = own_row();
  if (index >= row_count(target) * in_target) return;
  Word* to = row_of<Word>(target, index / in_target) + std::int64_t{index % in_target} * run;
  const Word* from =
      row_of<const Word>(source, index / in_source) + std::int64_t{index % in_source} * run;
  for (std::int64_t i = first_vector(); i < run; i += vector_step()) to[i] = from[i];
}

template <class T, int Elements>
__global__ void sum_strips(DeviceView d, DeviceView a, DeviceView terms) {
  const std::uint32_t row = own_row();
  if (row >= row_count(d)) return;
  T* to = row_of<T>(d, row);
  const T* from = row_of<const T>(a, row);
  const T* term = static_cast<const T*>(terms.data) + row * terms.pitch;
  for (std::int64_t i = first_vector() * Elements; i < d.cols; i += vector_step() * Elements) {
    float sum[Elements];
    load(from + i, sum);
    for (std::int32_t strip = 0; strip < terms.strips; ++strip) {
      float more[Elements];
      load(term + strip * terms.strip_step + i, more);
#pragma unroll
      for (int e = 0; e < Elements; ++e) sum[e] += more[e];
    }
    store(sum, to + i);
  }
}

template <class T, int Elements>
__global__ void add_rows(DeviceView y, DeviceView x, DeviceView r) {
  const std::uint32_t row = own_row();
  if (row >= row_count(y)) return;
  T* to = row_of<T>(y, row);
  const T* from = row_of<const T>(x, row);
  const T* term = row_of<const T>(r, row);
  for (std::int64_t i = first_vector() * Elements; i < y.cols; i += vector_step() * Elements) {
    float sum[Elements];
    float more[Elements];
    load(from + i, sum);
    load(term + i, more);
#pragma unroll
    for (int e = 0; e < Elements; ++e) sum[e] += more[e];
    store(sum, to + i);
  }
}

__device__ inline float activate(float x, Activation kind) {
  constexpr float kRootHalf = 0.70710678118654752F;
  // + 0 turns a negative zero into a positive one, as the host does.
  if (kind == Activation::relu) return (x < 0.0F ? 0.0F : x) + 0.0F;
  if (kind == Activation::gelu) return x * 0.5F * erfcf(-x * kRootHalf);
  return x / (1.0F + expf(-x));
}

template <class T, int Elements>
__global__ void apply_activation(DeviceView y, DeviceView x, Activation kind) {
  const std::uint32_t row = own_row();
  if (row >= row_count(y)) return;
  T* to = row_of<T>(y, row);
  const T* from = row_of<const T>(x, row);
  for (std::int64_t i = first_vector() * Elements; i < y.cols; i += vector_step() * Elements) {
    float values[Elements];
    load(from + i, values);
#pragma unroll
    for (float& value : values) value = activate(value, kind);
    if (kind == Activation::swiglu) {
      float up[Elements];
      load(from + y.cols + i, up);
#pragma unroll
      for (int e = 0; e < Elements; ++e) values[e] *= up[e];
    }
    store(values, to + i);
  }
}

/// Elements of T, which is narrow, from fp32.
template <class T, int Elements>
__global__ void round_elements(DeviceView target, DeviceView source) {
  const std::uint32_t row = own_row();
  if (row >= row_count(target)) return;
  auto* to = row_of<T>(target, row);
  const auto* from = row_of<const float>(source, row);
  for (std::int64_t i = first_vector() * Elements; i < target.cols; i += vector_step() * Elements) {
    float values[Elements];
    load(from + i, values);
    store(values, to + i);
  }
}

__global__ void sentinel() {}

namespace {

template <class T, int Elements>
void sum(const DeviceView& d, const DeviceView& a, const DeviceView& terms, cudaStream_t stream) {
  const auto [grid, block] = row_grid(d.total_rows(), d.cols / Elements);
  sum_strips<T, Elements><<<grid, block, 0, stream>>>(d, a, terms);
}

template <class T, int Elements>
void add(const DeviceView& y, const DeviceView& x, const DeviceView& r, cudaStream_t stream) {
  const auto [grid, block] = row_grid(y.total_rows(), y.cols / Elements);
  add_rows<T, Elements><<<grid, block, 0, stream>>>(y, x, r);
}

template <class T, int Elements>
void apply(const DeviceView& y, const DeviceView& x, Activation kind, cudaStream_t stream) {
  const auto [grid, block] = row_grid(y.total_rows(), y.cols / Elements);
  apply_activation<T, Elements><<<grid, block, 0, stream>>>(y, x, kind);
}

template <class T, int Elements>
void round(const DeviceView& target, const DeviceView& source, cudaStream_t stream) {
  const auto [grid, block] = row_grid(target.total_rows(), target.cols / Elements);
  round_elements<T, Elements><<<grid, block, 0, stream>>>(target, source);
}

template <class Word>
void copy(const DeviceView& target, const DeviceView& source, cudaStream_t stream) {
  const DeviceView to = in_words(target, sizeof(Word));
  const DeviceView from = in_words(source, sizeof(Word));
  const std::int32_t run = std::gcd(to.cols, from.cols);
  const auto [grid, block] = row_grid(to.elements() / run, run);
  copy_words<Word><<<grid, block, 0, stream>>>(to, from, run);
}

}  // namespace

void launch_copy(const DeviceView& target, const DeviceView& source, cudaStream_t stream) {
  if (target.elements() == 0) return;
  if (vectors_fit({target, source})) {
    copy<uint4>(target, source, stream);
  } else if (is_narrow(target.dtype)) {
    copy<std::uint16_t>(target, source, stream);
  } else {
    copy<std::uint32_t>(target, source, stream);
  }
  CFB_CUDA(cudaGetLastError());
}

void launch_accumulate(const DeviceView& d, const DeviceView& a, const DeviceView& terms,
                       cudaStream_t stream) {
  if (d.elements() == 0) return;
  const bool vectors = vectors_fit({d, a, terms});
  with_element_type(d.dtype, [&](auto element) {
    using T = decltype(element);
    vectors ? sum<T, kElements<T>>(d, a, terms, stream) : sum<T, 1>(d, a, terms, stream);
  });
  CFB_CUDA(cudaGetLastError());
}

void launch_residual(const DeviceView& y, const DeviceView& x, const DeviceView& r,
                     cudaStream_t stream) {
  if (y.elements() == 0) return;
  const bool vectors = vectors_fit({y, x, r});
  with_element_type(y.dtype, [&](auto element) {
    using T = decltype(element);
    vectors ? add<T, kElements<T>>(y, x, r, stream) : add<T, 1>(y, x, r, stream);
  });
  CFB_CUDA(cudaGetLastError());
}

void launch_elementwise(const DeviceView& y, const DeviceView& x, Activation kind,
                        cudaStream_t stream) {
  if (y.elements() == 0) return;
  const bool vectors = vectors_fit({y, x});
  with_element_type(y.dtype, [&](auto element) {
    using T = decltype(element);
    vectors ? apply<T, kElements<T>>(y, x, kind, stream) : apply<T, 1>(y, x, kind, stream);
  });
  CFB_CUDA(cudaGetLastError());
}

void launch_round(const DeviceView& target, const DeviceView& source, cudaStream_t stream) {
  if (target.elements() == 0) return;
  const bool vectors = vectors_fit({target, source});
  with_element_type(target.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (sizeof(T) < sizeof(float)) {  // as many as the source has in a vector
      vectors ? round<T, kElements<float>>(target, source, stream)
              : round<T, 1>(target, source, stream);
    }
  });
  CFB_CUDA(cudaGetLastError());
}

void launch_sentinel(cudaStream_t stream) {
  sentinel<<<1, 1, 0, stream>>>();
  CFB_CUDA(cudaGetLastError());
}

}  // namespace commfuse
