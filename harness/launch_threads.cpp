// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <memory>

#include "harness/host/host_backend.h"
#include "harness/launch.h"
#include "harness/load_backend.h"
#include "harness/session.h"
#include "harness/world/library_error.h"
#include "harness/world/process.h"
#include "harness/world/say.h"
#include "harness/world/thread_world.h"
#include "suite/error.h"

namespace commfuse {

namespace {

std::unique_ptr<Backend> make_backend(World& world, const Options& options) {
  if (options.backend == "cuda") return load_cuda_backend(world, options.settings);
  return std::make_unique<HostBackend>(HostBackend::Transports{});
}

}  // namespace

int launch_threads(const Options& options, Interrupts& interrupts) {
  if (options.transport == "mpi") {
    throw UsageError("--transport mpi needs ranks as MPI processes: start them with mpirun");
  }
  std::atomic<int> code{kExitOk};
  const std::chrono::duration<double> timeout(options.timeout_s);
  try {
    run_thread_ranks(std::max(1, options.threads), [&](World& world) {
      Watchdog watchdog(world.rank(), world.host(),
                        std::chrono::duration_cast<std::chrono::nanoseconds>(timeout),
                        [&](int exit_code) { world.abort(exit_code); });
      const auto session = [&] {
        code = run_session(
            world, options, [&] { return make_backend(world, options); }, watchdog);
      };
      if (world.rank() != 0) return session();
      // One process, one handler.
      const auto scope =
          interrupts.handle([&](const Signal& signal) { watchdog.interrupted(signal); });
      session();
    });
  } catch (const RankError& error) {
    // What everybody did wrong needs no rank, and errors of libraries have an exit code of their
    // own.
    try {
      std::rethrow_exception(error.cause());
    } catch (const UsageError&) {
      throw;
    } catch (const Unsupported&) {
      throw;
    } catch (const LibraryError& library) {
      say(error.what());
      return library.exit_code();
    } catch (...) {
      throw error;
    }
  }
  return code;
}

}  // namespace commfuse
