// SPDX-License-Identifier: Apache-2.0
// LibraryError: a call into MPI, or into a library of a backend, that returned an error.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace commfuse {

/// Everything that helps to find the cause; what() is one line with all of it.
class LibraryError : public std::runtime_error {
 public:
  struct Details {
    std::string library;     // "MPI"
    std::string code_name;   // "MPI_ERR_TRUNCATE"
    std::string text;        // the library's own explanation
    std::string expression;  // the call
    std::string file;
    int line = 0;
    std::int32_t rank = 0;
  };

  LibraryError(int exit_code, Details details);
  [[nodiscard]] const Details& details() const { return details_; }
  /// The program's exit code for errors of this library.
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
  Details details_;
};

}  // namespace commfuse
