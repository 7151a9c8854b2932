// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's handle and its multiplication.
#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>

#include "tests/fakecuda/call_fault.h"
#include "tests/fakecuda/captured_streams.h"
#include "tests/fakecuda/cublaslt_gemm.h"
#include "tests/fakecuda/cublaslt_handle.h"
#include "tests/fakecuda/cublaslt_heuristic.h"
#include "tests/fakecuda/cublaslt_problem.h"
#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/launch_log.h"
#include "tests/fakecuda/verdict.h"

struct cublasLtContext {
  bool destroyed = false;
};

namespace commfuse::fake {

cublasStatus_t check(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle->destroyed) {
    throw Finding(Verdict::Kind::use_after_free, "a handle of cuBLASLt was used after its end");
  }
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

struct CublasLtHandles {
  std::deque<cublasLtContext> all;
};

struct StatusText {
  cublasStatus_t status;
  const char* name;
  const char* meaning;
};

/// As the library says it.
StatusText text_of(cublasStatus_t status) {
  static constexpr std::array kTexts{
      StatusText{CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
      StatusText{CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED",
                 "the library was not initialized"},
      StatusText{CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED",
                 "the resource allocation failed"},
      StatusText{CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
                 "an unsupported value or parameter was passed to the function"},
      StatusText{CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
                 "the function requires an architectural feature absent from the device"},
      StatusText{CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED",
                 "the function failed to launch on the GPU"},
      StatusText{CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR",
                 "an internal operation failed"},
      StatusText{CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
                 "the requested functionality is not supported"}};
  const auto* const text = std::ranges::find(kTexts, status, &StatusText::status);
  if (text == kTexts.end()) return {status, "unrecognized status", "unrecognized status"};
  return *text;
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address == 0 ? 256 : 1U << std::min(std::countr_zero(address), 8);
}

/// What the library would find without an algorithm of the caller's: it looks at the pointers.
AlgoValue implied_algorithm(const MatmulProblem& problem, const MatmulBuffers& buffers,
                            std::size_t workspace_bytes) {
  PreferenceValue preference;
  preference.max_workspace_bytes = workspace_bytes;
  preference.alignments = {alignment_of(buffers.a), alignment_of(buffers.b),
                           alignment_of(buffers.c), alignment_of(buffers.d)};
  return choose_algorithm(problem, preference, Machine::current().kept<CublasLtModel>());
}

/// The library reads as the preference promised, without looking at the pointers.
void check_alignment(const AlgoValue& algo, const MatmulBuffers& buffers) {
  const std::array<const void*, 4> pointers{buffers.a, buffers.b, buffers.c, buffers.d};
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointers.at(i));
    if (address % algo.alignments.at(i) == 0) continue;
    throw Finding(Verdict::Kind::host_error,
                  fmt::format("matrix {} is aligned to {} bytes, and the preference claimed {}",
                              "ABCD"[i], alignment_of(pointers.at(i)), algo.alignments.at(i)));
  }
}

void check_overlap(const MatmulProblem& problem, const MatmulBuffers& buffers) {
  const auto touches_d = [&](const LayoutValue& layout, const void* data) {
    if (!overlap(extent_of(problem.d, buffers.d), extent_of(layout, data))) return false;
    for (const Range& written : ranges_of(problem.d, buffers.d)) {
      for (const Range& read : ranges_of(layout, data)) {
        if (overlap(written, read)) return true;
      }
    }
    return false;
  };
  const bool c = buffers.beta != 0 && buffers.c != buffers.d && touches_d(problem.c, buffers.c);
  if (c || touches_d(problem.a, buffers.a) || touches_d(problem.b, buffers.b)) {
    throw Finding(Verdict::Kind::race, "D lies where an operand of the same multiplication lies");
  }
}

cublasStatus_t check_buffers(const MatmulProblem& problem, const MatmulBuffers& buffers,
                             const AlgoValue& algo, std::size_t workspace_bytes) {
  if (buffers.a == nullptr || buffers.b == nullptr || buffers.d == nullptr ||
      (buffers.c == nullptr && buffers.beta != 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (workspace_bytes < algo.workspace_bytes ||
      (algo.workspace_bytes > 0 && buffers.workspace == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool in_place = buffers.c == buffers.d;
  const bool same_layout = problem.c.ld == problem.d.ld && problem.c.order == problem.d.order &&
                           problem.c.batch_stride == problem.d.batch_stride;
  if (in_place && !same_layout) return CUBLAS_STATUS_INVALID_VALUE;
  if (!in_place && buffers.c != nullptr && algo.out_of_place == 0) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t multiply(const MatmulProblem& problem, const MatmulBuffers& buffers,
                        const cublasLtMatmulAlgo_t* algorithm, std::size_t workspace_bytes,
                        cudaStream_t stream) {
  AlgoValue algo;
  if (algorithm == nullptr) {
    algo = implied_algorithm(problem, buffers, workspace_bytes);
  } else {
    const auto given = get<AlgoValue>(algorithm);
    if (!given || given->problem != problem.identity()) return CUBLAS_STATUS_INVALID_VALUE;
    algo = *given;
  }
  const cublasStatus_t status = check_buffers(problem, buffers, algo, workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  check_alignment(algo, buffers);
  check_overlap(problem, buffers);
  for (const Work& work : gemm_works(problem, algo, buffers)) {
    make_call({.kind = StreamCall::Kind::kernel, .stream = stream_of(stream)},
              [work](const StreamCall& call) {
                enqueue_or_capture(
                    Machine::current(), call.stream, [work](Machine& machine, StreamId lane) {
                      note_launch(machine.work(lane, work), LaunchKind::kernel, work.name, 0);
                    });
              });
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace commfuse::fake

using namespace commfuse::fake;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return cublaslt_call([&] {
    if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = &Machine::current().kept<CublasLtHandles>().all.emplace_back();
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return cublaslt_call([&] {
    const cublasStatus_t status = check(handle);
    if (status == CUBLAS_STATUS_SUCCESS) handle->destroyed = true;
    return status;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  return cublaslt_call([&] {
    MatmulProblem problem;
    cublasStatus_t status = check(handle);
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = read_problem(operation, a_layout, b_layout, c_layout, d_layout, problem);
    }
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    const MatmulBuffers buffers{
        *static_cast<const float*>(alpha), a, b, *static_cast<const float*>(beta), c, d, workspace};
    return multiply(problem, buffers, algorithm, workspace_bytes, stream);
  });
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) { return text_of(status).name; }

const char* cublasLtGetStatusString(cublasStatus_t status) { return text_of(status).meaning; }

}  // extern "C"
