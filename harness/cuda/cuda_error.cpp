// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cuda_error.h"

#include <fmt/format.h>

#include "harness/world/process.h"

namespace commfuse {
namespace {

constexpr int kCudaExitCode = 2;
constexpr int kNcclExitCode = 3;

struct Cause {
  const char* library;
  std::string code_name;
  std::string text;
};

[[noreturn]] void fail(int exit_code, const Cause& cause, const char* expression, const char* file,
                       int line) {
  throw LibraryError(exit_code, {.library = cause.library,
                                 .code_name = cause.code_name,
                                 .text = cause.text,
                                 .expression = expression,
                                 .file = file,
                                 .line = line,
                                 .rank = launcher_rank().value_or(0)});
}

}  // namespace

void throw_library_error(cudaError_t code, const char* expression, const char* file, int line) {
  fail(kCudaExitCode, {"CUDA", cudaGetErrorName(code), cudaGetErrorString(code)}, expression, file,
       line);
}

void throw_library_error(CUresult code, const char* expression, const char* file, int line) {
  // The driver is not linked, so its names are not at hand.
  fail(kCudaExitCode,
       {"the CUDA driver", fmt::format("CUresult {}", static_cast<int>(code)), "see cuda.h"},
       expression, file, line);
}

void throw_library_error(cublasStatus_t code, const char* expression, const char* file, int line) {
  fail(kCudaExitCode, {"cuBLASLt", cublasLtGetStatusName(code), cublasLtGetStatusString(code)},
       expression, file, line);
}

void throw_library_error(ncclResult_t code, const char* expression, const char* file, int line) {
  fail(kNcclExitCode,
       {"NCCL", fmt::format("ncclResult {}", static_cast<int>(code)),
        fmt::format("{}: {}", ncclGetErrorString(code), ncclGetLastError(nullptr))},
       expression, file, line);
}

}  // namespace commfuse
