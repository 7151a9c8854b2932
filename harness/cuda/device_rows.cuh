// SPDX-License-Identifier: Apache-2.0
// What kernels over views share: which row is whose, where it lies, vectors of elements in fp32; and
// a dtype's type on the device.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "harness/cuda/device_view.h"
#include "harness/cuda/row_grid.h"

namespace commfuse {

__device__ inline std::uint32_t own_row() { return blockIdx.x * blockDim.y + threadIdx.y; }
/// Of the row's vectors.
__device__ inline std::int64_t first_vector() { return blockIdx.y * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t vector_step() { return std::int64_t{gridDim.y} * blockDim.x; }

__device__ inline std::uint32_t row_count(const DeviceView& view) {
  return static_cast<std::uint32_t>(view.rows) * static_cast<std::uint32_t>(view.strips);
}

/// Offset of a row of the packed form, in elements.
__device__ inline std::int64_t row_offset(const DeviceView& view, std::uint32_t row) {
  if (view.strips == 1) return row * view.pitch;
  const auto rows = static_cast<std::uint32_t>(view.rows);
  return row / rows * view.strip_step + row % rows * view.pitch;
}

/// On the host: calls launch(a value of the type of the dtype's elements).
template <class Launch>
void with_element_type(DType dtype, const Launch& launch) {
  switch (dtype) {
    case DType::f32:
      return launch(float{});
    case DType::bf16:
      return launch(__nv_bfloat16{});
    case DType::f16:
      return launch(__half{});
  }
}

template <class T>
__device__ T* row_of(const DeviceView& view, std::uint32_t row) {
  return static_cast<T*>(view.data) + row_offset(view, row);
}

/// Elements of T in a vector access.
template <class T>
constexpr int kElements = kVectorBytes / sizeof(T);

/// Elements of T that move in one access.
template <class T, int Elements>
struct alignas(sizeof(T) * Elements) Vector {
  T at[Elements];
};

template <int Elements, class T>
__device__ void load(const T* from, float (&to)[Elements]) {
  const auto vector = *reinterpret_cast<const Vector<T, Elements>*>(from);
#pragma unroll
  for (int i = 0; i < Elements; ++i) to[i] = static_cast<float>(vector.at[i]);
}

template <int Elements, class T>
__device__ void store(const float (&from)[Elements], T* to) {
  Vector<T, Elements> vector;
#pragma unroll
  for (int i = 0; i < Elements; ++i) vector.at[i] = static_cast<T>(from[i]);
  if constexpr (sizeof(vector) == sizeof(uint4)) {
    // One access, with the usual caching: nvcc 13.0 may compute a struct element by element into
    // where it goes.
    __stwb(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4&>(vector));
  } else {
    *reinterpret_cast<Vector<T, Elements>*>(to) = vector;
  }
}

}  // namespace commfuse
