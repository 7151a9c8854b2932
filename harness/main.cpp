// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "harness/host/blas.h"
#include "harness/launch.h"
#include "harness/listing.h"
#include "harness/load_backend.h"
#include "harness/session.h"
#include "harness/world/library_error.h"
#include "harness/world/process.h"
#include "harness/world/say.h"
#include "harness/world/standard_streams.h"
#include "suite/error.h"

namespace commfuse {
namespace {

/// What needs no ranks; every process of a launch gets here, and one of them speaks.
bool answered(const Options& options, bool speaks) {
  std::string text;
  if (options.action == Action::help) text = help_text();
  if (options.action == Action::version) text = version_text() + "\n";
  if (options.action == Action::list) text = list_everything();
  if (text.empty()) return false;
  if (speaks) fmt::print("{}", text);
  return true;
}

int run(std::vector<std::string> arguments) {
  // Errors that every rank meets alike are said once.
  const bool speaks = launcher_rank().value_or(0) == 0;
  try {
    const Options options = parse_options(std::move(arguments));
    if (answered(options, speaks)) return kExitOk;
    if (options.threads > 0 && launcher_ranks().value_or(1) > 1) {
      throw UsageError("--threads starts ranks of its own: use it or mpirun, not both");
    }
    set_backend_environment(options.backend);
    Interrupts interrupts;
    if (options.threads > 0 || !launched_by_mpi()) return launch_threads(options, interrupts);
    return launch_processes(options, interrupts);
  } catch (const UsageError& error) {
    if (speaks) say(error.what());
    return kExitUsage;
  } catch (const Unsupported& error) {
    say(error.what());
    return kExitAllSkipped;
  } catch (const LibraryError& error) {
    say(error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    // fmt throws where what it prints is longer than the stream's buffer; end_streams() says what
    // happened.
    if (std::ferror(stdout) != 0) return kExitInternal;
    say(error.what());
    // At once: without memory, handlers at the end of a process can hang in their turn.
    flush_and_exit(kExitInternal);
  }
}

/// OpenBLAS chooses its kernels when it is loaded; only the environment of a new process changes
/// that. Whoever set the variable knows better.
void restart_with_better_blas(char** argv) {
  const std::string kernels(better_blas_kernels());
  if (kernels.empty() || std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  setenv("OPENBLAS_CORETYPE", kernels.c_str(), 0);
  // By its own name: one started by the link would be called "exe" in lists of processes.
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  execv(unknown ? "/proc/self/exe" : self.c_str(), argv);
  unsetenv("OPENBLAS_CORETYPE");  // it could not: go on with what there is
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  commfuse::begin_streams();
  commfuse::restart_with_better_blas(argv);
  return commfuse::end_streams(commfuse::run({argv + 1, argv + argc}));
}
