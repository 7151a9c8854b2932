// SPDX-License-Identifier: Apache-2.0
// What the command lines of all programs have in common.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/output_options.h"
#include "suite/error.h"

namespace commfuse {

/// Before anything is declared: defaults, --help, --version.
void begin_options(CLI::App& app);

/// Fills in what was declared. Action::help or Action::version where that was asked for, else
/// Action::run. Throws UsageError with one clear line.
Action parse_arguments(CLI::App& app, std::vector<std::string> arguments);

/// A number in a range; unlike CLI::Range it stays out of the help and takes no NaN.
CLI::Validator within(double least, double most);

/// The value of a name. Throws UsageError listing the names.
template <class Value>
Value one_of(std::string_view option, std::string_view text,
             std::initializer_list<std::pair<std::string_view, Value>> values) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : values) {
    if (name == text) return value;
    names.push_back(name);
  }
  std::erase(names, "");  // the option without a value
  throw UsageError(
      fmt::format("{} '{}' is unknown; valid: {}", option, text, fmt::join(names, ", ")));
}

}  // namespace commfuse
