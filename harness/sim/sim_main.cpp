// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "harness/sim/sim_session.h"
#include "harness/world/interrupts.h"
#include "harness/world/process.h"
#include "harness/world/say.h"
#include "harness/world/standard_streams.h"
#include "suite/error.h"

namespace commfuse {
namespace {

int run_sim(std::vector<std::string> arguments) {
  try {
    const Interrupts interrupts;  // a signal ends the program; records so far are in the file
    return run_sim_session(parse_sim_options(std::move(arguments)));
  } catch (const UsageError& error) {
    say(error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    // fmt throws where standard output cannot be written; end_streams() says so.
    if (std::ferror(stdout) == 0) say(error.what());
    return kExitInternal;
  }
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  commfuse::begin_streams();
  return commfuse::end_streams(commfuse::run_sim({argv + 1, argv + argc}));
}
