// SPDX-License-Identifier: Apache-2.0
#include "harness/host/kernels.h"

#include <map>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "harness/host/activation_gradient_kernel.h"
#include "harness/host/adam_kernel.h"
#include "harness/host/attention_gradient_kernel.h"
#include "harness/host/attention_kernel.h"
#include "harness/host/blas.h"
#include "harness/host/copy_kernel.h"
#include "harness/host/elementwise_kernel.h"
#include "harness/host/gemm_kernel.h"
#include "harness/host/norm_kernel.h"
#include "harness/host/sum_kernel.h"

namespace commfuse {
namespace {

/// Uninitialised floats, 64-byte aligned. Growing discards what was there.
class FloatBuffer {
 public:
  void reserve(std::int64_t floats) {
    if (floats <= capacity_) return;
    data_.reset();
    data_.reset(static_cast<float*>(::operator new (
        static_cast<std::size_t>(floats) * sizeof(float), std::align_val_t{kAlignment})));
    capacity_ = floats;
  }
  [[nodiscard]] float* data() const { return data_.get(); }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(float* data) const { ::operator delete (data, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<float, Free> data_;
  std::int64_t capacity_ = 0;
};

/// Ops whose workspace is a number of floats that their views decide.
template <class Kind>
constexpr bool kTakesFloats =
    std::is_same_v<Kind, Attention> || std::is_same_v<Kind, AttentionGradient> ||
    std::is_same_v<Kind, Norm> || std::is_same_v<Kind, NormGradient> ||
    std::is_same_v<Kind, GammaGradient>;

}  // namespace

struct HostKernels::Workspace {
  FloatBuffer scratch;                       // of the op that runs
  std::vector<const std::byte*> terms;       // of an Accumulate
  std::map<TensorId, FloatBuffer> expanded;  // narrow weights in fp32, the whole tensor

  /// B in fp32 if it is an expanded weight, else null.
  [[nodiscard]] const float* expanded_b(const Gemm& op) const {
    const auto found = expanded.find(op.b.tensor);
    return found == expanded.end() ? nullptr : found->second.data();
  }
};

HostKernels::HostKernels() : workspace_(std::make_unique<Workspace>()) {
  use_blas_single_threaded();
}

HostKernels::~HostKernels() = default;

void HostKernels::expand_weights(std::span<const TensorId> weights, const Storage& storage) {
  for (const TensorId id : weights) {
    const Tensor& tensor = storage.tensor(id);
    if (!is_narrow(tensor.dtype)) continue;
    FloatBuffer& buffer = workspace_->expanded[id];
    buffer.reserve(tensor.elements());
    storage.read(whole(id, tensor), {buffer.data(), static_cast<std::size_t>(tensor.elements())});
  }
}

void HostKernels::prepare(const Compute& op, const Storage& storage) {
  Workspace& workspace = *workspace_;
  std::visit(
      [&](const auto& o) {
        using Kind = std::decay_t<decltype(o)>;
        check_shapes(o, storage);
        if constexpr (std::is_same_v<Kind, Gemm>) {
          const bool expanded_b = workspace.expanded_b(o) != nullptr;
          workspace.scratch.reserve(workspace_floats(o, storage, expanded_b));
        } else if constexpr (kTakesFloats<Kind>) {
          workspace.scratch.reserve(workspace_floats(o, storage));
        } else if constexpr (std::is_same_v<Kind, Accumulate>) {
          workspace.terms.reserve(static_cast<std::size_t>(o.terms.strips) + 1);
        }
      },
      op);
}

void HostKernels::run(const Compute& op, const Storage& storage) {
  prepare(op, storage);  // costs nothing where it was called before
  Workspace& workspace = *workspace_;
  std::visit(
      [&](const auto& o) {
        using Kind = std::decay_t<decltype(o)>;
        if constexpr (std::is_same_v<Kind, Gemm>) {
          commfuse::run(o, storage, workspace.expanded_b(o), workspace.scratch.data());
        } else if constexpr (kTakesFloats<Kind>) {
          commfuse::run(o, storage, workspace.scratch.data());
        } else if constexpr (std::is_same_v<Kind, Accumulate>) {
          commfuse::run(o, storage, workspace.terms);
        } else {
          commfuse::run(o, storage);
        }
      },
      op);
}

}  // namespace commfuse
