// SPDX-License-Identifier: Apache-2.0
// How a run of the machine ended, and the exception that carries the first finding to its end.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace commfuse::fake {

/// The end of a run: ok, or the one finding that ended it.
struct Verdict {
  enum class Kind : std::uint8_t {
    ok,
    race,            // two accesses, one a write, that nothing orders
    poison,          // a read of bytes that nobody wrote
    out_of_bounds,   // a range that no allocation contains
    use_after_free,  // a range of a freed allocation, or a second free
    deadlock,        // something is left to do and nothing can run
    mismatch,        // parties of one joint operation do not mean the same
    host_error       // a host function or the body of an operation threw
  };
  Kind kind = Kind::ok;
  std::string message;

  [[nodiscard]] bool ok() const { return kind == Kind::ok; }
};

/// Thrown by whatever finds something; the machine turns it into the verdict of the run.
class Finding : public std::runtime_error {
 public:
  Finding(Verdict::Kind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] Verdict::Kind kind() const { return kind_; }

 private:
  Verdict::Kind kind_;
};

[[noreturn]] inline void report_host_error(const std::string& message) {
  throw Finding(Verdict::Kind::host_error, message);
}

}  // namespace commfuse::fake
