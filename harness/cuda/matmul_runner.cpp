// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/matmul_runner.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string>

#include "harness/cuda/cuda_error.h"
#include "harness/executor.h"

namespace commfuse {
namespace {

/// What NVIDIA recommends for Hopper. The heuristic obeys it as a limit.
/// How many algorithms are looked at for one that reads C apart from D.
constexpr int kCandidates = 16;

template <class Handle, auto destroy>
struct Destroy {
  void operator()(Handle handle) const { destroy(handle); }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;
using Description = Owned<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

template <class Value>
void set(const Description& to, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  CFB_CUDA(cublasLtMatmulDescSetAttribute(to.get(), attribute, &value, sizeof(value)));
}
template <class Value>
void set(const Layout& to, cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
  CFB_CUDA(cublasLtMatrixLayoutSetAttribute(to.get(), attribute, &value, sizeof(value)));
}
template <class Value>
void set(const Preference& to, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  CFB_CUDA(cublasLtMatmulPreferenceSetAttribute(to.get(), attribute, &value, sizeof(value)));
}

cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

Description description_of(const MatmulKey& key, bool tf32, std::int32_t sm_target) {
  const bool fast = tf32 && key.factors == DType::f32;
  cublasLtMatmulDesc_t made = nullptr;
  CFB_CUDA(cublasLtMatmulDescCreate(&made, fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                    CUDA_R_32F));
  Description description(made);
  // The first factor there is B, stored as its transpose.
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, operation(key.transpose_b));
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, operation(key.transpose_a));
  if (sm_target > 0) set(description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, sm_target);
  return description;
}

/// Of a row-major matrix with `cols` columns.
Layout layout_of(const MatmulKey::Operand& matrix, std::int64_t rows, std::int64_t cols,
                 std::int64_t batch, DType dtype) {
  cublasLtMatrixLayout_t made = nullptr;
  CFB_CUDA(cublasLtMatrixLayoutCreate(&made, data_type(dtype), static_cast<std::uint64_t>(cols),
                                      static_cast<std::uint64_t>(rows), matrix.pitch));
  Layout layout(made);
  if (batch == 1) return layout;
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_step);
  return layout;
}

Preference preference_for(const MatmulKey& key, std::size_t workspace_bytes, bool deterministic) {
  cublasLtMatmulPreference_t made = nullptr;
  CFB_CUDA(cublasLtMatmulPreferenceCreate(&made));
  Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  const std::uint32_t schemes =
      deterministic ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_MASK;
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  // The default is 256, which would then be assumed of every view. A and B are exchanged.
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.d.alignment);
  return preference;
}

bool reads_c_apart(const cublasLtMatmulAlgo_t& algorithm) {
  std::int32_t can = 0;
  std::size_t written = 0;
  CFB_CUDA(cublasLtMatmulAlgoCapGetAttribute(
      &algorithm, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, &can, sizeof(can), &written));
  return can != 0;
}

std::string describe(const MatmulKey& key) {
  return fmt::format("{}{}{} x {} x {} {}{}",
                     key.batch > 1 ? fmt::format("{} times ", key.batch) : "",
                     key.transpose_a ? "A^T " : "", key.m, key.n, key.k, name_of(key.factors),
                     key.addend == MatmulKey::Addend::other ? ", C apart from D" : "");
}

}  // namespace

struct MatmulRunner::Chosen {
  Description description;
  Layout a, b, c, d;  // of the product here, not of cuBLASLt's
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes = 0;
  float waves = 0;
};

MatmulRunner::MatmulRunner(const GemmSettings& settings, cudaStream_t stream)
    : settings_(settings), stream_(stream), workspace_(settings.workspace_bytes) {
  cublasLtHandle_t handle = nullptr;
  CFB_CUDA(cublasLtCreate(&handle));
  handle_.reset(handle);
  if (settings.spared_sms == 0) return;
  int device = 0;
  CFB_CUDA(cudaGetDevice(&device));
  CFB_CUDA(cudaDeviceGetAttribute(&sm_target_, cudaDevAttrMultiProcessorCount, device));
  sm_target_ -= settings.spared_sms;
  if (sm_target_ <= 0) {
    throw Unsupported(fmt::format("{} SMs are to be spared, the device has {}", settings.spared_sms,
                                  sm_target_ + settings.spared_sms));
  }
}

MatmulRunner::~MatmulRunner() = default;

MatmulRunner::Chosen MatmulRunner::choose(const MatmulKey& key) const {
  const auto& [m, n, k] = std::tie(key.m, key.n, key.k);
  Chosen chosen{.description = description_of(key, settings_.tf32, sm_target_),
                .a = layout_of(key.a, key.transpose_a ? k : m, key.transpose_a ? m : k, key.batch,
                               key.factors),
                .b = layout_of(key.b, key.transpose_b ? n : k, key.transpose_b ? k : n, key.batch,
                               key.factors),
                .c = layout_of(key.c, m, n, key.batch, key.result),
                .d = layout_of(key.d, m, n, key.batch, key.result),
                .algorithm = {}};
  const Preference preference = preference_for(key, workspace_.bytes(), settings_.deterministic);
  const bool apart = key.addend == MatmulKey::Addend::other;
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> candidates{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), chosen.description.get(), chosen.b.get(), chosen.a.get(), chosen.c.get(),
      chosen.d.get(), preference.get(), apart ? kCandidates : 1, candidates.data(), &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) CFB_CUDA(status);
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& candidate = candidates[static_cast<std::size_t>(i)];
    if (candidate.state != CUBLAS_STATUS_SUCCESS) continue;
    if (apart && !reads_c_apart(candidate.algo)) continue;
    chosen.algorithm = candidate.algo;
    chosen.workspace_bytes = candidate.workspaceSize;
    chosen.waves = candidate.wavesCount;
    return chosen;
  }
  throw Unsupported(fmt::format("cuBLASLt has no algorithm for {}", describe(key)));
}

void MatmulRunner::prepare(const Matmul& matmul) {
  const MatmulKey key = key_of(matmul);
  if (!chosen_.contains(key)) chosen_.emplace(key, choose(key));
}

const MatmulRunner::Chosen& MatmulRunner::chosen(const Matmul& matmul) const {
  const auto found = chosen_.find(key_of(matmul));
  if (found != chosen_.end()) return found->second;
  throw std::logic_error(fmt::format("{} was not prepared", describe(key_of(matmul))));
}

float MatmulRunner::waves(const Matmul& matmul) const { return chosen(matmul).waves; }

void MatmulRunner::run(const Matmul& matmul) {
  const Chosen& how = chosen(matmul);
  const float beta = matmul.c.data == nullptr ? 0.0F : 1.0F;
  const std::byte* c = matmul.c.data == nullptr ? matmul.d.data : matmul.c.data;
  CFB_CUDA(cublasLtMatmul(handle_.get(), how.description.get(), &matmul.alpha, matmul.b.data,
                          how.b.get(), matmul.a.data, how.a.get(), &beta, c, how.c.get(),
                          matmul.d.data, how.d.get(), &how.algorithm, workspace_.data(),
                          how.workspace_bytes, stream_));
}

}  // namespace commfuse
