// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/test_kernels.h"

#include <algorithm>
#include <array>

#include "tests/fakecuda/twin.h"

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*,
                                       dim3*, dim3*, int*);

namespace commfuse::fake {
namespace {

constexpr std::int64_t kKernelNs = 5000;

struct Registered {
  Registered(const char* mangled) {
    __cudaRegisterFunction(nullptr, &stub, nullptr, mangled, -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
  }
  char stub = 0;  // its address is the kernel
};
const Registered the_fill("_ZN4test4fillEPiii");
const Registered the_add("_ZN4test3addEPiPKii");
const Registered the_forgotten("_ZN4test9forgottenEv");

Range ints(const int* data, int count) {
  return {data, static_cast<std::size_t>(count) * sizeof(int)};
}

Work fill_twin(const Launch& launch) {
  int* to = argument<int*>(launch, 0);
  const int count = argument<int>(launch, 1);
  const int value = argument<int>(launch, 2);
  return {"", {}, {ints(to, count)}, kKernelNs, [=] { std::fill_n(to, count, value); }};
}

Work add_twin(const Launch& launch) {
  int* to = argument<int*>(launch, 0);
  const int* terms = argument<const int*>(launch, 1);
  const int count = argument<int>(launch, 2);
  return {"", {ints(to, count), ints(terms, count)}, {ints(to, count)}, kKernelNs, [=] {
            for (int i = 0; i < count; ++i) to[i] += terms[i];
          }};
}

/// tests/fakecuda/nvcc_kernels.cu; nobody registers them where nvcc is not there.
Work scale_twin(const Launch& launch) {
  auto* data = argument<float*>(launch, 0);
  const auto count = argument<long>(launch, 1);
  const auto factor = argument<float>(launch, 2);
  const Range range{data, static_cast<std::size_t>(count) * sizeof(float)};
  return {"", {range}, {range}, kKernelNs, [=] {
            for (long i = 0; i < count; ++i) data[i] *= factor;
          }};
}

constexpr std::array kTwins{
    TwinEntry{"test::fill", &fill_twin},
    TwinEntry{"test::add", &add_twin},
    TwinEntry{"commfuse::fake::scale<float>", &scale_twin},
    TwinEntry{"commfuse::fake::(anonymous namespace)::fill_unnamed", &fill_twin},
};

cudaError_t launch(const void* kernel, void** arguments, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, dim3{1, 1, 1}, dim3{32, 1, 1}, arguments, 0, stream);
}

}  // namespace

std::span<const TwinEntry> twins() { return kTwins; }

const void* fill_kernel() { return &the_fill.stub; }
const void* add_kernel() { return &the_add.stub; }
const void* forgotten_kernel() { return &the_forgotten.stub; }

cudaError_t launch_fill(int* to, int count, int value, cudaStream_t stream) {
  std::array<void*, 3> arguments{&to, &count, &value};
  return launch(fill_kernel(), arguments.data(), stream);
}

cudaError_t launch_add(int* to, const int* terms, int count, cudaStream_t stream) {
  std::array<void*, 3> arguments{&to, &terms, &count};
  return launch(add_kernel(), arguments.data(), stream);
}

}  // namespace commfuse::fake
