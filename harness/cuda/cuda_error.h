// SPDX-License-Identifier: Apache-2.0
// The checks around every call of the CUDA runtime, the driver, cuBLASLt and NCCL.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "harness/world/library_error.h"

namespace commfuse {

/// Each throws the LibraryError for `code`: exit code 2, NCCL's 3.
[[noreturn]] void throw_library_error(cudaError_t code, const char* expression, const char* file,
                                      int line);
[[noreturn]] void throw_library_error(CUresult code, const char* expression, const char* file,
                                      int line);
[[noreturn]] void throw_library_error(cublasStatus_t code, const char* expression, const char* file,
                                      int line);
[[noreturn]] void throw_library_error(ncclResult_t code, const char* expression, const char* file,
                                      int line);

}  // namespace commfuse

// Success is 0 in all four libraries.
#define CFB_CUDA(call)                                                      \
  do {                                                                      \
    if (auto cfb_code = (call); static_cast<int>(cfb_code) != 0) {          \
      ::commfuse::throw_library_error(cfb_code, #call, __FILE__, __LINE__); \
    }                                                                       \
  } while (false)
