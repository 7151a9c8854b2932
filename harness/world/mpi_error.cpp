// SPDX-License-Identifier: Apache-2.0
#include "harness/world/mpi_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace commfuse {
namespace {

constexpr int kExitCode = 3;

struct ErrorClass {
  int code;
  const char* name;
};

// The classes that point-to-point, collective and communicator calls return.
constexpr std::array kClasses{
    ErrorClass{MPI_ERR_BUFFER, "MPI_ERR_BUFFER"},
    ErrorClass{MPI_ERR_COUNT, "MPI_ERR_COUNT"},
    ErrorClass{MPI_ERR_TYPE, "MPI_ERR_TYPE"},
    ErrorClass{MPI_ERR_TAG, "MPI_ERR_TAG"},
    ErrorClass{MPI_ERR_COMM, "MPI_ERR_COMM"},
    ErrorClass{MPI_ERR_RANK, "MPI_ERR_RANK"},
    ErrorClass{MPI_ERR_REQUEST, "MPI_ERR_REQUEST"},
    ErrorClass{MPI_ERR_ROOT, "MPI_ERR_ROOT"},
    ErrorClass{MPI_ERR_GROUP, "MPI_ERR_GROUP"},
    ErrorClass{MPI_ERR_OP, "MPI_ERR_OP"},
    ErrorClass{MPI_ERR_ARG, "MPI_ERR_ARG"},
    ErrorClass{MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE"},
    ErrorClass{MPI_ERR_OTHER, "MPI_ERR_OTHER"},
    ErrorClass{MPI_ERR_INTERN, "MPI_ERR_INTERN"},
    ErrorClass{MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS"},
    ErrorClass{MPI_ERR_PENDING, "MPI_ERR_PENDING"},
    ErrorClass{MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM"},
};

std::string name_of(int code) {
  int error_class = MPI_SUCCESS;
  if (MPI_Error_class(code, &error_class) == MPI_SUCCESS) {
    const auto* found =
        std::find_if(kClasses.begin(), kClasses.end(),
                     [&](const ErrorClass& known) { return known.code == error_class; });
    if (found != kClasses.end()) return found->name;
  }
  return fmt::format("code {}", code);
}

std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "no explanation";
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

void throw_mpi_error(int code, const char* expression, const char* file, int line) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  throw LibraryError(kExitCode, {.library = "MPI",
                                 .code_name = name_of(code),
                                 .text = text_of(code),
                                 .expression = expression,
                                 .file = file,
                                 .line = line,
                                 .rank = rank});
}

}  // namespace commfuse
