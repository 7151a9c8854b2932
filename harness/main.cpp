// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "harness/launch.h"
#include "harness/listing.h"
#include "harness/session.h"
#include "harness/world/library_error.h"
#include "harness/world/process.h"
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
    Interrupts interrupts;
    if (options.threads > 0 || !launched_by_mpi()) return launch_threads(options, interrupts);
    return launch_processes(options, interrupts);
  } catch (const UsageError& error) {
    if (speaks) fmt::print(stderr, "commfuse-bench: {}\n", error.what());
    return kExitUsage;
  } catch (const LibraryError& error) {
    fmt::print(stderr, "commfuse-bench: {}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "commfuse-bench: {}\n", error.what());
    return kExitInternal;
  }
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) { return commfuse::run({argv + 1, argv + argc}); }
