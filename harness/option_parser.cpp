// SPDX-License-Identifier: Apache-2.0
#include "harness/option_parser.h"

#include <algorithm>

namespace commfuse {
namespace {

// CLI11 takes the text of a flag without a variable as a constant string only.
const std::string kVersionHelp = "Print the version";

}  // namespace

void begin_options(CLI::App& app) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // wrappers append
  app.set_help_flag("-h,--help", "Print this help")->group("");
  app.add_flag("--version", kVersionHelp)->group("");
}

Action parse_arguments(CLI::App& app, std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // CLI11 takes its vector from the back
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return Action::help;
  } catch (const CLI::ExtrasError&) {
    throw UsageError(fmt::format("unknown: {}; see --help", fmt::join(app.remaining(), " ")));
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    text = text.substr(0, text.find('\n'));
    throw UsageError(text + "; see --help");
  }
  return app.count("--version") > 0 ? Action::version : Action::run;
}

CLI::Validator within(double least, double most) {
  const auto complain = [=](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return fmt::format("takes a number from {:g} to {:g}, got '{}'", least, most, text);
  };
  return CLI::Validator(complain, "");
}

}  // namespace commfuse
