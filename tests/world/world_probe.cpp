// SPDX-License-Identifier: Apache-2.0
// A program that ends badly under mpirun, in the way its argument names, for mpi_end_test. Rank 1
// is the one that misbehaves; the others wait for it in a barrier.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "harness/world/interrupts.h"
#include "harness/world/mpi_session.h"
#include "harness/world/mpi_world.h"
#include "harness/world/process.h"
#include "harness/world/watchdog.h"

namespace commfuse {
namespace {

[[noreturn]] void hang() {
  for (;;) pause();
}

void misbehave(const std::string& how, World& world) {
  if (how == "throw") throw std::runtime_error("broke down");
  if (how == "abort") world.abort(7);
  if (how == "kill") raise(SIGKILL);
  if (how == "terminate") kill(getpid(), SIGTERM);
  if (how != "finalize") hang();
}

int run(const std::string& how) {
  Interrupts interrupts;
  MpiSession session;
  // Only from here on, unlike in a real program: the timeout is short, MPI's start is not.
  const bool expires = how == "hang" || how == "finalize";
  Watchdog watchdog(launcher_rank().value_or(0), host_name(),
                    expires ? std::chrono::seconds(3) : std::chrono::seconds(600), abort_mpi);
  const auto scope = interrupts.handle([&](const Signal& signal) { watchdog.interrupted(signal); });
  const auto running = watchdog.guard("probe");
  {
    MpiWorld world;
    const auto describe = [](std::uint64_t op) { return "op " + std::to_string(op); };
    const auto phase = watchdog.guard("barrier", describe);
    watchdog.progress(40 + static_cast<std::uint64_t>(world.rank()));
    world.barrier();
    if (world.rank() == 0) std::fputs("ready\n", stderr);
    if (world.rank() == 1) misbehave(how, world);
    if (how != "finalize") world.barrier();
  }
  const auto ending = watchdog.guard("MPI_Finalize");
  if (how == "finalize" && launcher_rank() == 1) hang();
  session.finalize();
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  try {
    return commfuse::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
