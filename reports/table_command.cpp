// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/record.h"
#include "harness/record/table.h"
#include "reports/commands.h"
#include "reports/record_csv.h"
#include "reports/report_exit_codes.h"

namespace commfuse {
namespace {

struct TableOptions {
  std::vector<std::string> files;
  std::string format = "text";
};

/// Of all files. A case that two of them have is one of several launches, which a table cannot tell
/// apart.
std::vector<Record> read_all(const std::vector<std::string>& files) {
  std::vector<Record> all;
  std::vector<std::string> warnings;
  std::map<std::string, std::string> file_of;  // by id
  for (const std::string& file : files) {
    std::string warning;
    for (Record& record : read_records(file, &warning)) {
      const auto [found, added] = file_of.emplace(record.id, file);
      if (!added && found->second != file) {
        throw RecordFileError(
            fmt::format("{}: {} is in {} as well; for several launches there is "
                        "commfuse-report compare",
                        file, record.id, found->second));
      }
      all.push_back(std::move(record));
    }
    if (!warning.empty()) warnings.push_back(std::move(warning));
  }
  if (all.empty()) {
    throw RecordFileError(
        fmt::format("{}; no records", fmt::join(warnings.empty() ? files : warnings, "; ")));
  }
  for (const std::string& warning : warnings) {
    fmt::print(stderr, "commfuse-report: {}\n", warning);
  }
  return all;
}

int print_table(const TableOptions& options) {
  const std::vector<Record> records = read_all(options.files);
  if (options.format == "csv") {
    fmt::print("{}", record_csv(records));
  } else {
    fmt::print("{}", comparison_table(records, options.format == "markdown" ? TableForm::markdown
                                                                            : TableForm::text));
  }
  return kReportOk;
}

}  // namespace

DeclaredCommand declare_table(CLI::App& program) {
  const auto options = std::make_shared<TableOptions>();
  CLI::App* command = program.add_subcommand(
      "table", "Implementations beside each other: time, losses, speed-ups, and what has no time");
  command->add_option("FILE", options->files, "Files of records")->required()->type_name("");
  command->add_option("--format", options->format, "text, markdown or csv (all metrics)")
      ->check(CLI::IsMember({"text", "markdown", "csv"}))
      ->type_name("NAME")
      ->capture_default_str();
  return {command, [options] { return print_table(*options); }};
}

}  // namespace commfuse
