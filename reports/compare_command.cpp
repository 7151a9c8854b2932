// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "reports/commands.h"
#include "reports/comparison.h"
#include "reports/comparison_report.h"
#include "reports/report_exit_codes.h"

namespace commfuse {
namespace {

struct CompareOptions {
  std::string a, b;
  ComparisonRules rules;
  std::string format = "text";
  bool allow_missing = false;
  bool allow_environment = false;
  bool strict = false;
};

bool is_allowed(const IncomparableRow& row, const CompareOptions& options) {
  switch (row.why) {
    case IncomparableRow::Why::added:
    case IncomparableRow::Why::removed:
      return options.allow_missing;
    case IncomparableRow::Why::environment:
      return options.allow_environment;
    case IncomparableRow::Why::unit:
    case IncomparableRow::Why::clock:
      return false;
  }
  return false;
}

/// What is wrong beats what is slower, which beats what cannot be compared.
int exit_code_of(const Comparison& comparison, const CompareOptions& options) {
  const auto any = [&](Verdict verdict) {
    return std::ranges::count(comparison.rows, verdict, &ComparedRow::verdict) > 0;
  };
  if (any(Verdict::wrong)) return kReportWrong;
  if (any(Verdict::slower)) return kReportRegression;
  const bool refused =
      std::ranges::any_of(comparison.incomparable,
                          [&](const IncomparableRow& row) { return !is_allowed(row, options); });
  if (refused || comparison.rows.empty()) return kReportIncomparable;
  return options.strict && any(Verdict::unclear) ? kReportUnclear : kReportOk;
}

int run_compare(const CompareOptions& options) {
  const Launches a = read_launches(options.a), b = read_launches(options.b);
  for (const Launches* side : {&a, &b}) {
    for (const std::string& warning : side->warnings) {
      fmt::print(stderr, "commfuse-report: {}\n", warning);
    }
  }
  const ComparedSides sides{options.a, options.b, a.count, b.count};
  const Comparison comparison = compare_launches(a, b, options.rules);
  if (options.format == "json") {
    fmt::print("{}\n", comparison_json(comparison, sides, options.rules).dump(1));
  } else {
    fmt::print("{}", comparison_text(comparison, sides, options.rules));
  }
  return exit_code_of(comparison, options);
}

}  // namespace

DeclaredCommand declare_compare(CLI::App& program) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = program.add_subcommand(
      "compare", "Two sets of launches: which rows got faster, slower, or cannot be told apart");
  command
      ->add_option("A", options->a,
                   "Before: a folder with a file of records per launch, or one file")
      ->required()
      ->type_name("");
  command->add_option("B", options->b, "After")->required()->type_name("");
  command
      ->add_option("--alpha", options->rules.alpha,
                   "How many of the rows that are called different may be so by chance, as a share")
      ->check(CLI::Range(1e-6, 0.5))
      ->type_name("SHARE")
      ->capture_default_str();
  command
      ->add_option("--min-effect", options->rules.minimum_effect,
                   "Changes of the time below this share do not count")
      ->check(CLI::Range(0.0, 10.0))
      ->type_name("SHARE")
      ->capture_default_str();
  command->add_flag("--allow-missing", options->allow_missing,
                    "Rows of one side alone are no failure");
  command->add_flag("--allow-environment", options->allow_environment,
                    "Nor are other libraries, drivers, CPUs or settings");
  command->add_flag("--strict", options->strict,
                    "Rows that are UNCLEAR are a failure (exit code 10)");
  command->add_option("--format", options->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("NAME")
      ->capture_default_str();
  return {command, [options] { return run_compare(*options); }};
}

}  // namespace commfuse
