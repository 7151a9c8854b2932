// SPDX-License-Identifier: Apache-2.0
// commfuse-report: reads records from disk. Needs neither MPI nor a GPU.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/record.h"
#include "reports/commands.h"
#include "reports/report_exit_codes.h"

namespace commfuse {
namespace {

constexpr std::array kCommands{&declare_table, &declare_compare};

constexpr const char* kFooter = R"(
Examples:
  commfuse-report table results.jsonl
  commfuse-report compare before/ after/          (folders with a file per launch, 5 or more each)

Exit codes: 0 ok, 1 internal, 6 usage or a file that is no record file; of compare: 7 wrong results,
8 slower, 9 rows or environments differ, 10 unclear (with --strict).
)";

void complain(const std::string& text) { fmt::print(stderr, "commfuse-report: {}\n", text); }

std::vector<std::string> names_of(const std::vector<DeclaredCommand>& commands) {
  std::vector<std::string> names;
  for (const DeclaredCommand& command : commands) names.push_back(command.command->get_name());
  return names;
}

int run_report(std::vector<std::string> arguments) {
  CLI::App program("Reads the records that commfuse-bench and commfuse-sim wrote.\n");
  program.name("commfuse-report");
  program.set_version_flag("--version", "commfuse-report " COMMFUSE_VERSION);
  program.footer(kFooter);
  std::vector<DeclaredCommand> commands;
  for (const auto& declare : kCommands) commands.push_back(declare(program));
  if (arguments.empty()) arguments = {"--help"};
  if (const std::string& first = arguments.front();
      !first.starts_with("-") && std::ranges::count(names_of(commands), first) == 0) {
    complain(
        fmt::format("unknown command '{}'; valid: {}", first, fmt::join(names_of(commands), ", ")));
    return kReportUsage;
  }
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    program.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    const auto asked = program.get_subcommands();
    fmt::print("{}", asked.empty() ? program.help() : asked.front()->help());
    return kReportOk;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return kReportOk;
  } catch (const CLI::ParseError& error) {
    complain(fmt::format("{} (see --help)", error.what()));
    return kReportUsage;
  }
  for (const DeclaredCommand& command : commands) {
    if (command.command->parsed()) return command.run();
  }
  complain("a command is missing (see --help)");
  return kReportUsage;
}

int run_guarded(std::vector<std::string> arguments) {
  try {
    return run_report(std::move(arguments));
  } catch (const RecordFileError& error) {
    complain(error.what());
    return kReportUsage;
  } catch (const std::exception& error) {
    complain(error.what());
    return kReportInternal;
  }
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  const int code = commfuse::run_guarded({argv + 1, argv + argc});
  // A report that did not reach standard output is an error, whatever it says.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("commfuse-report: standard output could not be written\n", stderr);
  return commfuse::kReportInternal;
}
