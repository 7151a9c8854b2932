// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cuda_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "harness/cuda/adam.h"
#include "harness/cuda/attention.h"
#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/device_trace.h"
#include "harness/cuda/gamma_groups.h"
#include "harness/cuda/gemm.h"
#include "harness/cuda/launches.h"
#include "harness/cuda/matmul_runner.h"
#include "harness/cuda/norms.h"
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
std::string unsupported(const AttentionGradient& /*op*/, const DeviceStorage& /*storage*/) {
  return "gradient of attention";
}
std::string unsupported(const Elementwise& op, const DeviceStorage& storage) {
  return unsupported(storage, op.y, {op.x});
}
std::string unsupported(const ActivationGradient& op, const DeviceStorage& storage) {
  return unsupported(storage, op.dx, {op.dy, op.x});
}
std::string unsupported(const Norm& op, const DeviceStorage& storage) {
  return unsupported(storage, op.y, {op.x, op.gamma});
}
std::string unsupported(const NormGradient& op, const DeviceStorage& storage) {
  return unsupported(storage, op.dx, {op.dy, op.x, op.gamma});
}
std::string unsupported(const GammaGradient& op, const DeviceStorage& storage) {
  return unsupported(storage, op.d, {op.dy, op.x});
}
std::string unsupported(const Residual& op, const DeviceStorage& storage) {
  return unsupported(storage, op.y, {op.x, op.r});
}
std::string unsupported(const Adam& op, const DeviceStorage& storage) {
  return unsupported_adam(op, storage);
}
std::string unsupported(const Accumulate& op, const DeviceStorage& storage) {
  return unsupported(storage, op.d, {op.a, op.terms});
}
/// Whether a copy rounds fp32 to a narrow dtype.
bool rounds(const Copy& op, const DeviceStorage& storage) {
  return is_narrow(storage.tensor(op.d.tensor).dtype) &&
         !is_narrow(storage.tensor(op.s.tensor).dtype);
}
std::string unsupported(const Copy& op, const DeviceStorage& storage) {
  return rounds(op, storage) ? std::string{} : unsupported(storage, op.d, {op.s});
}

/// Memory for what ops of one stream pass from kernel to kernel. What it outgrows stays: graphs
/// captured before go on using it.
class Workspace {
 public:
  void reserve(std::int64_t bytes) {
    if (holds(bytes)) return;
    blocks_.emplace_back(static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] bool holds(std::int64_t bytes) const {
    return bytes == 0 ||
           (!blocks_.empty() && blocks_.back().bytes() >= static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] std::byte* data() const {
    return blocks_.empty() ? nullptr : blocks_.back().data();
  }

 private:
  std::vector<DeviceMemory> blocks_;
};

}  // namespace

struct CudaKernels::State {
  State(const GemmSettings& settings, cudaStream_t on) : stream(on), matmuls(settings, on) {}

  void prepare(const Gemm& op, const DeviceStorage& storage) {
    for (const Matmul& matmul : matmuls_of(op, storage)) matmuls.prepare(matmul);
  }
  void prepare(const Attention& op, const DeviceStorage& storage) {
    workspace.reserve(workspace_bytes(op, storage));
    for (const AttentionStep& step : attention_steps(op, storage, workspace.data())) {
      for (const Matmul& matmul : step.scores) matmuls.prepare(matmul);
      for (const Matmul& matmul : step.outputs) matmuls.prepare(matmul);
    }
  }
  void prepare(const GammaGradient& op, const DeviceStorage& /*storage*/) {
    workspace.reserve(GammaGroups(op).workspace_bytes());
  }
  template <class Other>
  void prepare(const Other& /*op*/, const DeviceStorage& /*storage*/) {}

  void run(const Gemm& op, const DeviceStorage& storage) {
    for (const Matmul& matmul : matmuls_of(op, storage)) matmuls.run(matmul);
  }
  void run(const Attention& op, const DeviceStorage& storage) {
    if (!workspace.holds(workspace_bytes(op, storage))) {
      throw std::logic_error("this attention was not prepared");
    }
    for (const AttentionStep& step : attention_steps(op, storage, workspace.data())) {
      for (const Matmul& matmul : step.scores) matmuls.run(matmul);
      launch_softmax(step.softmax, stream);
      for (const Matmul& matmul : step.outputs) matmuls.run(matmul);
      if (step.rounding) launch_round(step.rounding->target, step.rounding->source, stream);
    }
  }
  void run(const AttentionGradient& /*op*/, const DeviceStorage& /*storage*/) const {
    throw std::logic_error("no gradient of attention was prepared");
  }
  void run(const Elementwise& op, const DeviceStorage& storage) const {
    launch_elementwise(device_view(op.y, storage), device_view(op.x, storage), op.kind, stream);
  }
  void run(const ActivationGradient& op, const DeviceStorage& storage) const {
    launch_activation_gradient(device_view(op.dx, storage), device_view(op.dy, storage),
                               device_view(op.x, storage), op.kind, stream);
  }
  void run(const Norm& op, const DeviceStorage& storage) const {
    launch_norm(device_view(op.y, storage), device_view(op.x, storage),
                device_view(op.gamma, storage), stream);
  }
  void run(const NormGradient& op, const DeviceStorage& storage) const {
    launch_norm_gradient(device_view(op.dx, storage), device_view(op.dy, storage),
                         device_view(op.x, storage), device_view(op.gamma, storage), stream);
  }
  void run(const GammaGradient& op, const DeviceStorage& storage) const {
    const GammaGroups groups(op);
    if (!workspace.holds(groups.workspace_bytes())) {
      throw std::logic_error("this gradient of gamma was not prepared");
    }
    auto* const inverse = reinterpret_cast<float*>(workspace.data());
    float* const sums = inverse + groups.sums_offset();
    const DeviceView x = device_view(op.x, storage);
    launch_inverse_rms(inverse, x, stream);
    launch_gamma_sums(sums, device_view(op.dy, storage), x, inverse, GammaGroups::kRows, stream);
    launch_gamma_total(device_view(op.d, storage), sums, static_cast<std::int32_t>(groups.groups),
                       op.adds, stream);
  }
  void run(const Residual& op, const DeviceStorage& storage) const {
    launch_residual(device_view(op.y, storage), device_view(op.x, storage),
                    device_view(op.r, storage), stream);
  }
  void run(const Adam& op, const DeviceStorage& storage) const {
    launch_adam(adam_views(op, storage), stream);
  }
  void run(const Accumulate& op, const DeviceStorage& storage) const {
    launch_accumulate(device_view(op.d, storage), device_view(op.a, storage),
                      device_view(op.terms, storage), stream);
  }
  void run(const Copy& op, const DeviceStorage& storage) const {
    const auto launch = rounds(op, storage) ? launch_round : launch_copy;
    launch(device_view(op.d, storage), device_view(op.s, storage), stream);
  }

  cudaStream_t stream;
  MatmulRunner matmuls;
  Workspace workspace;  // of attention and gradients of gamma
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
  if (writes(op).front().elements() == 0) return {.fewest = 0, .most = 0};
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
  if (std::holds_alternative<GammaGradient>(op)) return {.fewest = 3, .most = 3};
  return {};
}

}  // namespace commfuse
