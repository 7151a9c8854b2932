// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/machine_file.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "harness/sim/gpu_compute_model.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::array kOfEveryMachine{
    "bf16_tflops",   "fp16_tflops",     "fp32_tflops",   "memory_gb_per_s", "sms",
    "tile_m",        "tile_n",          "gemm_share",    "attention_share", "op_overhead_us",
    "link_gb_per_s", "link_latency_us", "ranks_per_node"};
constexpr std::array kOfSeveralNodes{"nics_per_node", "nic_gb_per_s", "nic_latency_us"};

struct SourcedNumber {
  double value = 0;
  std::string source;
  bool validated = false;
};
using Numbers = std::map<std::string, SourcedNumber, std::less<>>;

bool is_number(std::string_view key) {
  const auto is_key = [key](const char* known) { return key == known; };
  return std::ranges::any_of(kOfEveryMachine, is_key) ||
         std::ranges::any_of(kOfSeveralNodes, is_key);
}

toml::table parse_text(const std::string& place, std::string_view text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}, line {}: no TOML: {}", place, error.source().begin.line,
                                 error.description()));
  }
}

SourcedNumber number_of(const std::string& place, std::string_view key, const toml::node& node) {
  const toml::table* entry = node.as_table();
  SourcedNumber number;
  if (entry != nullptr) {
    for (const auto& [name, value] : *entry) {
      if (name != "value" && name != "source" && name != "validated") {
        throw UsageError(fmt::format("{}: {} has no '{}'", place, key, name.str()));
      }
    }
    number.value = (*entry)["value"].value_or(-1.0);
    number.source = (*entry)["source"].value_or(std::string());
  }
  const auto validated =
      entry != nullptr ? (*entry)["validated"].value<bool>() : std::optional<bool>();
  if (!validated || number.source.empty()) {
    throw UsageError(
        fmt::format("{}: {} must be {{ value = ..., source = \"...\", validated = true or false }}",
                    place, key));
  }
  number.validated = *validated;
  const bool time = key.ends_with("_us");  // what takes none is a question that people ask
  if (!(number.value > 0 || (time && number.value == 0)) || number.value > 1e12) {
    throw UsageError(fmt::format("{}: {} must be a number {} 0, up to 1e12", place, key,
                                 time ? "from" : "above"));
  }
  return number;
}

/// Those of the base, then those of the text over them.
Numbers numbers_of(const std::string& place, std::string_view text,
                   const std::function<std::string(std::string_view)>& base_text) {
  const toml::table table = parse_text(place, text);
  Numbers numbers;
  for (const char* key : {"base", "description"}) {
    if (table.contains(key) && !table[key].is_string()) {
      throw UsageError(fmt::format("{}: {} must be a text", place, key));
    }
  }
  if (const auto base = table["base"].value<std::string>()) {
    std::string theirs;
    try {
      theirs = base_text(*base);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: its base: {}", place, error.what()));
    }
    if (parse_text(*base, theirs).contains("base")) {
      throw UsageError(fmt::format("{}: its base, {}, has a base itself", place, *base));
    }
    numbers = numbers_of(*base, theirs, base_text);
  }
  for (const auto& [key, node] : table) {
    if (key == "base" || key == "description") continue;
    if (!is_number(key.str())) {
      throw UsageError(fmt::format("{}: unknown key '{}'; valid: {}, {}, base, description", place,
                                   key.str(), fmt::join(kOfEveryMachine, ", "),
                                   fmt::join(kOfSeveralNodes, ", ")));
    }
    numbers.insert_or_assign(std::string(key.str()), number_of(place, key.str(), node));
  }
  return numbers;
}

void require_keys(const std::string& place, const Numbers& numbers) {
  for (const char* key : kOfEveryMachine) {
    if (!numbers.contains(key)) throw UsageError(fmt::format("{}: {} is missing", place, key));
  }
  const bool several =
      std::ranges::any_of(kOfSeveralNodes, [&](const char* key) { return numbers.contains(key); });
  for (const char* key : kOfSeveralNodes) {
    if (several && !numbers.contains(key)) {
      throw UsageError(fmt::format("{}: {} is missing", place, key));
    }
  }
}

GpuRates rates_of(const Numbers& numbers) {
  const auto value = [&](const char* key) { return numbers.find(key)->second.value; };
  GpuRates rates;
  const auto peak = [&](DType dtype) -> double& {
    return rates.peak_flops_per_second[static_cast<std::size_t>(dtype)];
  };
  peak(DType::f32) = value("fp32_tflops") * 1e12;
  peak(DType::bf16) = value("bf16_tflops") * 1e12;
  peak(DType::f16) = value("fp16_tflops") * 1e12;
  rates.memory_bytes_per_second = value("memory_gb_per_s") * 1e9;
  rates.sms = static_cast<std::int32_t>(value("sms"));
  rates.tile_m = static_cast<std::int32_t>(value("tile_m"));
  rates.tile_n = static_cast<std::int32_t>(value("tile_n"));
  rates.gemm_share = value("gemm_share");
  rates.attention_share = value("attention_share");
  rates.op_overhead_seconds = value("op_overhead_us") * 1e-6;
  return rates;
}

void require_counts_and_shares(const std::string& place, const Numbers& numbers) {
  for (const auto& [key, number] : numbers) {
    const bool count = key == "sms" || key.starts_with("tile_") || key.ends_with("_per_node");
    if (count && (number.value !=
                  static_cast<double>(static_cast<std::int32_t>(std::min(number.value, 1e6))))) {
      throw UsageError(fmt::format("{}: {} must be a count", place, key));
    }
    if (key.ends_with("_share") && number.value > 1) {
      throw UsageError(fmt::format("{}: {} is a share, at most 1", place, key));
    }
  }
}

}  // namespace

MachineModel read_machine(const std::string& place, std::string_view text,
                          const std::function<std::string(std::string_view)>& base_text) {
  const Numbers numbers = numbers_of(place, text, base_text);
  require_keys(place, numbers);
  require_counts_and_shares(place, numbers);
  const auto value = [&](const char* key) { return numbers.find(key)->second.value; };
  const GpuRates rates = rates_of(numbers);
  MachineModel machine;
  machine.name = place;
  machine.compute = std::make_shared<GpuComputeModel>(rates);
  machine.peak_flops_per_second = rates.peak_flops_per_second;
  machine.network.inner = {value("link_gb_per_s") * 1e9, value("link_latency_us") * 1e-6};
  machine.network.ranks_per_node = static_cast<std::int32_t>(value("ranks_per_node"));
  machine.places = machine.network.ranks_per_node;
  if (numbers.contains(kOfSeveralNodes.front())) {
    machine.network.outer = {value("nic_gb_per_s") * 1e9, value("nic_latency_us") * 1e-6};
    machine.network.nics_per_node = static_cast<std::int32_t>(value("nics_per_node"));
    machine.places = 0;
  }
  for (const auto& [key, number] : numbers) {
    machine.sources.push_back(fmt::format("{} = {:g}: {}{}", key, number.value, number.source,
                                          number.validated ? ", validated" : ", not validated"));
  }
  return machine;
}

std::string description_of(std::string_view text) {
  return toml::parse(text)["description"].value_or(std::string());
}

}  // namespace commfuse
