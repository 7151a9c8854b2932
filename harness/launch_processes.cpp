// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "harness/host/host_backend.h"
#include "harness/host/mpi_transport.h"
#include "harness/launch.h"
#include "harness/load_backend.h"
#include "harness/session.h"
#include "harness/world/mpi_session.h"
#include "harness/world/mpi_world.h"
#include "harness/world/process.h"
#include "harness/world/say.h"
#include "harness/world/wire.h"
#include "suite/error.h"

namespace commfuse {
namespace {

/// Ranks that were started with different options would wait for each other for ever.
void check_same_options(World& world, const Options& options) {
  const std::string theirs = text_of(world.broadcast(bytes_of(options.command_line), 0));
  const std::int64_t different = world.sum(theirs == options.command_line ? 0 : 1);
  if (different > 0) {
    throw UsageError(fmt::format("{} of {} ranks were started with other options than rank 0",
                                 different, world.ranks()));
  }
}

void check_launcher(const World& world) {
  const std::optional<std::int32_t> launched = launcher_ranks();
  if (launched && *launched != world.ranks()) {
    throw UsageError(
        fmt::format("the launcher started {} ranks, MPI sees {}: the launcher belongs to another "
                    "MPI than this program",
                    *launched, world.ranks()));
  }
}

std::unique_ptr<Backend> make_backend(World& world, const Options& options) {
  if (options.backend == "cuda") return load_cuda_backend(world, options.settings);
  return std::make_unique<HostBackend>(HostBackend::Transports{{"mpi", make_mpi_transport}});
}

/// A failure on one rank leaves the others inside collectives: it ends all of them. A UsageError is
/// everybody's, and so is what is
/// missing for a backend.
int run_on_this_rank(const Options& options, Watchdog& watchdog) {
  MpiWorld world;
  try {
    check_launcher(world);
    check_same_options(world, options);
    return run_session(
        world, options, [&] { return make_backend(world, options); }, watchdog);
  } catch (const UsageError& error) {
    // Where the launcher belongs to another MPI, every process is rank 0 of its own world.
    if (launcher_rank().value_or(world.rank()) == 0) say(error.what());
    return kExitUsage;
  } catch (const Unsupported& error) {
    if (world.rank() == 0) say(error.what());
    return kExitAllSkipped;
  } catch (const LibraryError& error) {
    say(error.what());
    abort_mpi(error.exit_code());
  } catch (const std::exception& error) {
    say(fmt::format("rank {} on {} failed: {}", world.rank(), world.host(), error.what()));
    abort_mpi(kExitInternal);
  }
}

}  // namespace

int launch_processes(const Options& options, Interrupts& interrupts) {
  const std::chrono::duration<double> timeout(options.timeout_s);
  // Before MPI_Init and until after MPI_Finalize, since both can hang.
  Watchdog watchdog(launcher_rank().value_or(0), host_name(),
                    std::chrono::duration_cast<std::chrono::nanoseconds>(timeout), abort_mpi);
  const auto scope = interrupts.handle([&](const Signal& signal) { watchdog.interrupted(signal); });
  const auto phase = watchdog.guard("MPI");
  MpiSession session;
  const int code = run_on_this_rank(options, watchdog);
  // mpirun ends all ranks once one has left with another code than 0; that interrupts nothing.
  const auto over = interrupts.handle([&](const Signal& signal) {
    flush_and_exit(signal.from_launcher ? code : kExitInterrupted);
  });
  session.finalize();
  interrupts.ignore();
  return code;
}

}  // namespace commfuse
