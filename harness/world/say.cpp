// SPDX-License-Identifier: Apache-2.0
#include "harness/world/say.h"

#include <unistd.h>

#include <algorithm>
#include <string>

namespace commfuse {

void say(std::string_view text) noexcept {
  try {
    std::string line = "commfuse-bench: " + std::string(text);
    std::ranges::replace(line, '\n', ' ');  // a value of the command line may hold one
    line += '\n';
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory for the line
  }
}

}  // namespace commfuse
