// SPDX-License-Identifier: Apache-2.0
// OUTPUT of a command line: what is done with the selected cases, and where results go. Declared
// once for all programs.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace commfuse {

enum class Action : std::uint8_t {
  help,
  version,
  list,
  list_json,
  dry_run,
  explain,
  explain_dot,
  run
};

struct Output {
  std::string out;
  bool resume = false;
  Action action = Action::run;
};

/// The texts that CLI11 fills in beside what goes into Output at once.
struct OutputTexts {
  std::string list, explain;
};

void declare_output(CLI::App& app, Output& output, OutputTexts& texts);
/// Once the arguments were parsed. Throws UsageError. `has_other_file`: --resume is also about a
/// file of the program's own.
void fill_output(const OutputTexts& texts, const CLI::App& app, Output& output,
                 bool has_other_file = false);

}  // namespace commfuse
