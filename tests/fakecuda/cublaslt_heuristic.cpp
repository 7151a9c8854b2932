// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/cublaslt_heuristic.h"

#include <algorithm>

#include "tests/fakecuda/cublaslt_handle.h"

namespace commfuse::fake {
namespace {

constexpr std::uint64_t kTileRows = 128;
constexpr std::uint64_t kTileCols = 256;

std::uint64_t tiles(std::uint64_t length, std::uint64_t tile) { return (length + tile - 1) / tile; }

cublasStatus_t find_algorithm(const MatmulProblem& problem, cublasLtMatmulPreference_t descriptor,
                              cublasLtMatmulHeuristicResult_t& result) {
  const auto preference = get<PreferenceValue>(descriptor);
  if (!preference || std::ranges::count(preference->alignments, 0U) > 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (preference->search_mode != CUBLASLT_SEARCH_BEST_FIT) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& model = Machine::current().kept<CublasLtModel>();
  const AlgoValue algo = choose_algorithm(problem, *preference, model);
  result = {};
  put(algo, result.algo);
  result.workspaceSize = algo.workspace_bytes;
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = waves_of(problem, model);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

AlgoValue choose_algorithm(const MatmulProblem& problem, const PreferenceValue& preference,
                           const CublasLtModel& model) {
  AlgoValue algo;
  algo.problem = problem.identity();
  algo.alignments = preference.alignments;
  algo.out_of_place = model.out_of_place ? 1 : 0;
  const std::uint64_t sums =
      2 * sizeof(float) * problem.m * problem.n * static_cast<std::uint64_t>(problem.batch);
  const bool may_split =
      problem.k > 1 && (preference.reduction_schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
  if (may_split && sums <= preference.max_workspace_bytes) {
    algo.splits = 2;
    algo.reduction_scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    algo.workspace_bytes = sums;
  } else if (model.plain_workspace_bytes <= preference.max_workspace_bytes) {
    algo.workspace_bytes = model.plain_workspace_bytes;
  }
  return algo;
}

float waves_of(const MatmulProblem& problem, const CublasLtModel& model) {
  const std::int32_t target = problem.operation.sm_count_target;
  const std::int32_t available =
      target > 0 ? std::min(target, model.multiprocessors) : model.multiprocessors;
  const std::uint64_t count = tiles(problem.m, kTileRows) * tiles(problem.n, kTileCols) *
                              static_cast<std::uint64_t>(problem.batch);
  return static_cast<float>(count) / static_cast<float>(available);
}

}  // namespace commfuse::fake

using namespace commfuse::fake;

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  return cublaslt_call([&] {
    if (const cublasStatus_t status = check(handle); status != CUBLAS_STATUS_SUCCESS) return status;
    if (requested <= 0 || results == nullptr || returned == nullptr) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    *returned = 0;
    MatmulProblem problem;
    cublasStatus_t status = read_problem(operation, a, b, c, d, problem);
    if (status == CUBLAS_STATUS_SUCCESS) status = find_algorithm(problem, preference, results[0]);
    if (status == CUBLAS_STATUS_SUCCESS) *returned = 1;
    return status;
  });
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute,
                                                 void* buffer, size_t bytes, size_t* written) {
  const auto algo = get<AlgoValue>(algorithm);
  if (!algo) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
    case CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT:
      return get_field(std::int32_t{1}, buffer, bytes, written);
    case CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT:
      return get_field(algo->out_of_place, buffer, bytes, written);
    case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
      return get_field(std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}, buffer, bytes,
                       written);
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES:
      return get_field(algo->alignments.at(static_cast<std::size_t>(
                           attribute - CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES)),
                       buffer, bytes, written);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;  // by the fake
  }
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* buffer, size_t bytes, size_t* written) {
  const auto algo = get<AlgoValue>(algorithm);
  if (!algo) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return get_field(std::int32_t{66}, buffer, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      return get_field(algo->tile, buffer, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return get_field(algo->splits, buffer, bytes, written);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return get_field(algo->reduction_scheme, buffer, bytes, written);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;  // by the fake
  }
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void* buffer, size_t bytes) {
  auto algo = get<AlgoValue>(algorithm);
  if (!algo) return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;  // splits would need another workspace
  if (attribute == CUBLASLT_ALGO_CONFIG_ID) status = CUBLAS_STATUS_INVALID_VALUE;  // read only
  if (attribute == CUBLASLT_ALGO_CONFIG_TILE_ID) status = set_field(algo->tile, buffer, bytes);
  if (status == CUBLAS_STATUS_SUCCESS) put(*algo, *algorithm);
  return status;
}

}  // extern "C"
