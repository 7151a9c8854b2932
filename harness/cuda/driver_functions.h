// SPDX-License-Identifier: Apache-2.0
// Functions of the driver, found at run time: the plugin does not link it, or it would not load
// where there is none.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

namespace commfuse {

/// Stream operations on 32-bit values, as CUDA 12 declares them.
struct StreamValueFunctions {
  CUresult (*write)(CUstream, CUdeviceptr, cuuint32_t, unsigned int) = nullptr;
  CUresult (*wait)(CUstream, CUdeviceptr, cuuint32_t, unsigned int) = nullptr;
};

/// Throws LibraryError, or std::runtime_error naming the function that the driver lacks.
StreamValueFunctions find_stream_value_functions();

/// Whether a device's NVLink switch reduces and copies (multicast, NCCL's NVLS). Absent where the
/// driver does not tell.
std::optional<bool> has_multicast(int device);

}  // namespace commfuse
