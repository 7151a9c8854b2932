// SPDX-License-Identifier: Apache-2.0
#include "harness/world/say.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace commfuse {

std::string_view program_name() noexcept {
  const std::string_view name = program_invocation_short_name;
  return name.starts_with("commfuse-") ? name : "commfuse-bench";
}

void say(std::string_view text) noexcept {
  try {
    std::string line = std::string(program_name()) + ": " + std::string(text);
    std::ranges::replace(line, '\n', ' ');  // a value of the command line may hold one
    line += '\n';
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory for the line
  }
}

}  // namespace commfuse
