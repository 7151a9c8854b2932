// SPDX-License-Identifier: Apache-2.0
// The exceptions that carry a decision about the exit code. One clear line each; main prints it to
// standard error.
#pragma once

#include <stdexcept>

namespace commfuse {

/// The user asked for something that does not exist or cannot be read: exit code 6.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace commfuse
