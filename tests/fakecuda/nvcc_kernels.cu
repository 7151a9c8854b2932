// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/nvcc_kernels.h"

namespace commfuse::fake {

template <class T>
__global__ void scale(T* data, long count, T factor) {
  const long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < count) data[i] *= factor;
}

namespace {

__global__ void fill_unnamed(int* to, int count, int value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = value;
}

}  // namespace

void launch_scale(float* data, long count, float factor, cudaStream_t stream) {
  scale<float>
      <<<dim3(static_cast<unsigned>((count + 127) / 128)), 128, 0, stream>>>(data, count, factor);
}

void launch_fill_unnamed(int* to, int count, int value, cudaStream_t stream) {
  fill_unnamed<<<1, 256, 0, stream>>>(to, count, value);
}

void launch_too_large(float* data, cudaStream_t stream) {
  scale<float><<<1, 2048, 0, stream>>>(data, 1, 1.0F);
}

}  // namespace commfuse::fake
