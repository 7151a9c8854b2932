// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/machine_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/sim/embedded_machines.h"
#include "harness/sim/machine_file.h"
#include "suite/error.h"

namespace commfuse {
namespace {

std::string valid_names() {
  std::string names;
  for (const NamedMachine& machine : named_machines()) names += machine.name + ", ";
  return names + "a file.toml, or ideal:flops=700T,link=400GB/s,latency=3us";
}

std::string embedded_text(std::string_view name) {
  for (const EmbeddedMachine& machine : embedded_machines()) {
    if (machine.name == name) return std::string(machine.text);
  }
  throw UsageError(fmt::format("unknown machine '{}'; valid: {}", name, valid_names()));
}

std::string file_text(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    throw UsageError(fmt::format("{}: is a folder", path));
  }
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    throw UsageError(fmt::format("{}: is no file", path));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw UsageError(fmt::format("{}: cannot be read", path));
  return text;
}

}  // namespace

std::vector<NamedMachine> named_machines() {
  std::vector<NamedMachine> machines;
  for (const EmbeddedMachine& machine : embedded_machines()) {
    machines.push_back({std::string(machine.name), description_of(machine.text)});
  }
  std::ranges::sort(machines, {}, &NamedMachine::name);
  return machines;
}

MachineModel find_machine(std::string_view text) {
  if (text.starts_with("ideal")) return ideal_machine(text);
  const std::string name(text);
  return read_machine(name, text.ends_with(".toml") ? file_text(name) : embedded_text(text),
                      &embedded_text);
}

}  // namespace commfuse
