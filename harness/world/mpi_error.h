// SPDX-License-Identifier: Apache-2.0
// The check around every MPI call. It can fire only because MpiSession installs MPI_ERRORS_RETURN.
#pragma once

#include <mpi.h>

#include "harness/world/library_error.h"

namespace commfuse {

/// Throws the LibraryError for `code`, with exit code 3.
[[noreturn]] void throw_mpi_error(int code, const char* expression, const char* file, int line);

}  // namespace commfuse

#define CFB_MPI(call)                                                   \
  do {                                                                  \
    if (const int cfb_code = (call); cfb_code != MPI_SUCCESS)           \
      ::commfuse::throw_mpi_error(cfb_code, #call, __FILE__, __LINE__); \
  } while (false)
