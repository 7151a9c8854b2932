// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace commfuse {

/// Case i of n and the time left, on a terminal; nothing in a pipe.
class Progress {
 public:
  Progress(bool shown, std::size_t total);

  void begin(std::size_t done, const std::string& title) const;
  void end() const;

 private:
  bool shown_;
  std::size_t total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace commfuse
