// SPDX-License-Identifier: Apache-2.0
#include "harness/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace commfuse {

Progress::Progress(bool shown, std::size_t total)
    : shown_(shown && isatty(STDERR_FILENO) == 1), total_(total) {}

void Progress::begin(std::size_t done, const std::string& title) const {
  if (!shown_) return;
  std::string left;
  if (done > 0) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    left =
        fmt::format(", about {:.0f} s left", spent.count() / double(done) * double(total_ - done));
  }
  fmt::print(stderr, "\r\033[Kcase group {} of {}{}: {}", done + 1, total_, left, title);
  std::fflush(stderr);
}

void Progress::end() const {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

}  // namespace commfuse
