// SPDX-License-Identifier: Apache-2.0
// The commands of commfuse-report, one file each. A command declares its options and what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace commfuse {

/// Returns the exit code; throws RecordFileError for a file that cannot be used. What is returned
/// owns the values of the options, so it lives until the program has been parsed.
using RunCommand = std::function<int()>;

/// A command that was added to the program.
struct DeclaredCommand {
  CLI::App* command = nullptr;
  RunCommand run;
};

DeclaredCommand declare_table(CLI::App& program);
DeclaredCommand declare_compare(CLI::App& program);

}  // namespace commfuse
