// SPDX-License-Identifier: Apache-2.0
#include "harness/output_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "harness/option_parser.h"
#include "suite/error.h"

namespace commfuse {
namespace {

// CLI11 takes the text of a flag without a variable as a constant string only.
const std::string kDryRunHelp = "Print the cases, their memory and what would be skipped";

}  // namespace

void declare_output(CLI::App& app, Output& output, OutputTexts& texts) {
  const char* group = "OUTPUT";
  app.add_option("--out", output.out,
                 "New JSON Lines file, a record per case, written group by group")
      ->group(group)
      ->type_name("FILE");
  app.add_flag("--resume", output.resume, "Keep what --out holds and run the rest")->group(group);
  app.add_option("--list", texts.list,
                 "What there is; --list=json: the names of the selected cases")
      ->group(group)
      ->expected(0, 1)
      ->type_name("[json]");
  app.add_flag("--dry-run", kDryRunHelp)->group(group);
  app.add_option("--explain", texts.explain,
                 "Print the plans of every rank; --explain=dot: Graphviz")
      ->group(group)
      ->expected(0, 1)
      ->type_name("[dot]");
}

void fill_output(const OutputTexts& texts, const CLI::App& app, Output& output,
                 bool has_other_file) {
  if (app.count("--out") > 0 && output.out.empty()) throw UsageError("--out takes a file name");
  if (output.resume && output.out.empty() && !has_other_file)
    throw UsageError("--resume needs --out FILE");
  if ((app.count("--dry-run") > 0) + (app.count("--list") > 0) + (app.count("--explain") > 0) > 1) {
    throw UsageError("--list, --dry-run and --explain exclude each other");
  }
  if (app.count("--dry-run") > 0) output.action = Action::dry_run;
  if (app.count("--list") > 0) {
    output.action =
        one_of<Action>("--list", texts.list, {{"", Action::list}, {"json", Action::list_json}});
  }
  if (app.count("--explain") > 0) {
    output.action = one_of<Action>("--explain", texts.explain,
                                   {{"", Action::explain}, {"dot", Action::explain_dot}});
  }
}

}  // namespace commfuse
