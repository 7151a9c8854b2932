// SPDX-License-Identifier: Apache-2.0
#include "harness/world/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "harness/world/say.h"

namespace commfuse {

void begin_streams() {
  for (int fd = open("/dev/null", O_RDWR); fd >= 0 && fd <= STDERR_FILENO;) {
    fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) close(fd);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

int end_streams(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  say("standard output could not be written");
  return code == EXIT_SUCCESS ? EXIT_FAILURE : code;
}

}  // namespace commfuse
