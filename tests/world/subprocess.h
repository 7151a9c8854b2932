// SPDX-License-Identifier: Apache-2.0
// A program that a test starts, watches and ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace commfuse {

/// Runs from construction on, standard output and error in one pipe. Killed when destroyed.
class Subprocess {
 public:
  /// The first of `arguments` is the path of the program. Throws std::system_error.
  explicit Subprocess(const std::vector<std::string>& arguments);
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;
  ~Subprocess();

  /// Whether `text` appeared in the output before the program ended or `limit` passed.
  bool wait_for(std::string_view text, std::chrono::seconds limit);
  void signal(int number) const;
  /// Exit code once the program has ended; -1 if a signal ended it, -2 if it still runs after
  /// `limit`.
  int wait(std::chrono::seconds limit);
  [[nodiscard]] const std::string& output() const { return output_; }

 private:
  bool read_some(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  int pipe_ = -1;
  bool ended_ = false;
  std::string output_;
};

}  // namespace commfuse
