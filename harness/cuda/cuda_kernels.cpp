// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cuda_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <variant>

#include "harness/cuda/attention.h"
#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/device_trace.h"
#include "harness/cuda/gemm.h"
#include "harness/cuda/launches.h"
#include "harness/cuda/matmul_runner.h"
#include "harness/cuda/softmax.h"
#include "harness/executor.h"

namespace commfuse {
namespace {

/// Own kernels take one dtype per op.
std::string unsupported(const DeviceStorage& storage, const View& written,
                        std::initializer_list<View> read) {
  const Tensor& target = storage.tensor(written.tensor);
  for (const View& view : read) {
    const Tensor& source = storage.tensor(view.tensor);
    if (source.dtype == target.dtype) continue;
    return fmt::format("{} {} from {} {}", name_of(target.dtype), target.name,
                       name_of(source.dtype), source.name);
  }
  return {};
}

std::string unsupported(const Gemm& op, const DeviceStorage& storage) {
  return unsupported_dtypes(op, storage);
}
std::string unsupported(const Attention& op, const DeviceStorage& storage) {
  return unsupported_attention(op, storage);
}
std::string unsupported(const Elementwise& op, const DeviceStorage& storage) {
  return unsupported(storage, op.y, {op.x});
}
std::string unsupported(const Accumulate& op, const DeviceStorage& storage) {
  return unsupported(storage, op.d, {op.a, op.terms});
}
std::string unsupported(const Copy& op, const DeviceStorage& storage) {
  return unsupported(storage, op.d, {op.s});
}

}  // namespace

struct CudaKernels::State {
  State(const GemmSettings& settings, cudaStream_t on) : stream(on), matmuls(settings, on) {}

  void prepare(const Gemm& op, const DeviceStorage& storage) {
    for (const Matmul& matmul : matmuls_of(op, storage)) matmuls.prepare(matmul);
  }
  void prepare(const Attention& op, const DeviceStorage& storage) {
    const auto bytes = static_cast<std::size_t>(workspace_bytes(op, storage));
    if (scores.bytes() < bytes) scores = DeviceMemory(bytes);
    for (const AttentionStep& step : attention_steps(op, storage, scores.data())) {
      for (const Matmul& matmul : step.scores) matmuls.prepare(matmul);
      for (const Matmul& matmul : step.outputs) matmuls.prepare(matmul);
    }
  }
  template <class Other>
  void prepare(const Other& /*op*/, const DeviceStorage& /*storage*/) {}

  void run(const Gemm& op, const DeviceStorage& storage) {
    for (const Matmul& matmul : matmuls_of(op, storage)) matmuls.run(matmul);
  }
  void run(const Attention& op, const DeviceStorage& storage) {
    if (scores.bytes() < static_cast<std::size_t>(workspace_bytes(op, storage))) {
      throw std::logic_error("this attention was not prepared");
    }
    for (const AttentionStep& step : attention_steps(op, storage, scores.data())) {
      for (const Matmul& matmul : step.scores) matmuls.run(matmul);
      launch_softmax(step.softmax, stream);
      for (const Matmul& matmul : step.outputs) matmuls.run(matmul);
      if (step.rounding) launch_round(step.rounding->target, step.rounding->source, stream);
    }
  }
  void run(const Elementwise& op, const DeviceStorage& storage) const {
    launch_elementwise(device_view(op.y, storage), device_view(op.x, storage), op.kind, stream);
  }
  void run(const Accumulate& op, const DeviceStorage& storage) const {
    launch_accumulate(device_view(op.d, storage), device_view(op.a, storage),
                      device_view(op.terms, storage), stream);
  }
  void run(const Copy& op, const DeviceStorage& storage) const {
    launch_copy(device_view(op.d, storage), device_view(op.s, storage), stream);
  }

  cudaStream_t stream;
  MatmulRunner matmuls;
  DeviceMemory scores;  // workspace of attention
};

CudaKernels::CudaKernels(const GemmSettings& settings, cudaStream_t stream)
    : state_(std::make_unique<State>(settings, stream)) {}

CudaKernels::~CudaKernels() = default;

void CudaKernels::prepare(const Compute& op, const DeviceStorage& storage) {
  if (const std::string reason = misfit(op); !reason.empty()) throw std::invalid_argument(reason);
  std::visit(
      [&](const auto& o) {
        if (const std::string reason = unsupported(o, storage); !reason.empty()) {
          throw Unsupported(fmt::format("the cuda backend computes no {}", reason));
        }
        state_->prepare(o, storage);
      },
      op);
}

void CudaKernels::run(const Compute& op, const DeviceStorage& storage) {
  std::visit([&](const auto& o) { state_->run(o, storage); }, op);
}

float CudaKernels::waves(const Compute& op, const DeviceStorage& storage) const {
  float most = 0;
  if (const auto* gemm = std::get_if<Gemm>(&op)) {
    for (const Matmul& matmul : matmuls_of(*gemm, storage)) {
      most = std::max(most, state_->matmuls.waves(matmul));
    }
  }
  return most;
}

LaunchCount CudaKernels::launches(const Compute& op, const DeviceStorage& storage) const {
  if (writes(op).elements() == 0) return {.fewest = 0, .most = 0};
  if (const auto* gemm = std::get_if<Gemm>(&op)) {
    const auto matmuls = static_cast<std::int32_t>(matmuls_of(*gemm, storage).size());
    return {.fewest = matmuls, .most = kAnyNumber};
  }
  if (const auto* attention = std::get_if<Attention>(&op)) {
    std::size_t kernels = 0;
    for (const AttentionStep& step : attention_steps(*attention, storage, nullptr)) {
      kernels += step.scores.size() + 1 + step.outputs.size() + (step.rounding ? 1 : 0);
    }
    return {.fewest = static_cast<std::int32_t>(kernels), .most = kAnyNumber};
  }
  return {};
}

}  // namespace commfuse
