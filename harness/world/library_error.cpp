// SPDX-License-Identifier: Apache-2.0
#include "harness/world/library_error.h"

#include <fmt/format.h>

#include <utility>

namespace commfuse {
namespace {

std::string line_of(const LibraryError::Details& details) {
  return fmt::format("{} error on rank {}: {}: {} in {} at {}:{}", details.library, details.rank,
                     details.code_name, details.text, details.expression, details.file,
                     details.line);
}

}  // namespace

LibraryError::LibraryError(int exit_code, Details details)
    : std::runtime_error(line_of(details)), exit_code_(exit_code), details_(std::move(details)) {}

}  // namespace commfuse
