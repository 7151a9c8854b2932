// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/machine_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/record/gpu_datasheet.h"
#include "harness/sim/embedded_machines.h"
#include "suite/error.h"

namespace commfuse {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string text_of_machine(std::string_view name) {
  for (const EmbeddedMachine& machine : embedded_machines()) {
    if (machine.name == name) return std::string(machine.text);
  }
  throw UsageError("no such machine");
}

MachineModel read(const std::string& text) {
  return read_machine("m.toml", text, [](std::string_view name) { return text_of_machine(name); });
}

/// The complaint about a text; empty if there is none.
std::string complaint(const std::string& text) {
  try {
    read(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string with(const std::string& line) { return "base = \"h100-sxm8\"\n" + line; }

TEST(MachineFile, EveryNamedMachineCanBeRead) {
  EXPECT_EQ(named_machines().size(), 6U);
  for (const NamedMachine& named : named_machines()) {
    const MachineModel machine = find_machine(named.name);
    EXPECT_EQ(machine.name, named.name);
    EXPECT_FALSE(named.description.empty());
    EXPECT_EQ(machine.network.ranks_per_node, 8);
    EXPECT_EQ(machine.places, named.name.ends_with("-400g") ? 0 : 8);
    EXPECT_THAT(machine.sources, Contains(HasSubstr("gemm_share = 0.75: assumption")));
  }
}

TEST(MachineFile, NumbersOfDatasheetsAreThoseOfTheTable) {
  for (const auto& [name, device] :
       {std::pair("h100-sxm8", "NVIDIA H100 80GB HBM3"), std::pair("h200-sxm8", "NVIDIA H200"),
        std::pair("a100-sxm8", "NVIDIA A100-SXM4-80GB")}) {
    const GpuDatasheet& sheet = *datasheet_of(device);
    const MachineModel machine = find_machine(name);
    const auto peak = [&](DType dtype) {
      return machine.peak_flops_per_second[static_cast<std::size_t>(dtype)] * 1e-12;
    };
    EXPECT_DOUBLE_EQ(peak(DType::bf16), sheet.bf16_tflops) << name;
    EXPECT_DOUBLE_EQ(peak(DType::f16), sheet.fp16_tflops) << name;
    EXPECT_DOUBLE_EQ(peak(DType::f32), sheet.fp32_tflops) << name;
    EXPECT_DOUBLE_EQ(machine.network.inner.bytes_per_second, sheet.nvlink_gb_per_s * 1e9) << name;
    EXPECT_THAT(machine.sources,
                Contains(HasSubstr(fmt::format("memory_gb_per_s = {:g}:", sheet.memory_gb_per_s))));
  }
}

TEST(MachineFile, ABaseGivesWhatIsNotSaid) {
  const MachineModel machine =
      read(with("link_gb_per_s = { value = 100, source = \"a guess\", validated = true }"));
  EXPECT_EQ(machine.network.inner.bytes_per_second, 100e9);
  EXPECT_EQ(machine.network.inner.latency_seconds, 3e-6);
  EXPECT_THAT(machine.sources, Contains("link_gb_per_s = 100: a guess, validated"));
}

TEST(MachineFile, TimesMayBeZero) {
  const MachineModel machine =
      read(with("link_latency_us = { value = 0, source = \"what if\", validated = false }"));
  EXPECT_EQ(machine.network.inner.latency_seconds, 0);
}

TEST(MachineFile, SeveralNodesHaveNics) {
  const MachineModel machine = find_machine("a100-sxm8-400g");
  EXPECT_EQ(machine.network.outer.bytes_per_second, 50e9);
  EXPECT_EQ(machine.network.nics_per_node, 8);
  EXPECT_EQ(machine.network.link(0, 8).bytes_per_second, 50e9);
}

TEST(MachineFile, SaysWhatIsWrongInOneLine) {
  const auto number = [](const char* key, const char* value) {
    return with(
        fmt::format("{} = {{ value = {}, source = \"s\", validated = false }}", key, value));
  };
  EXPECT_THAT(complaint("x ="), HasSubstr("m.toml, line 1: no TOML"));
  EXPECT_THAT(complaint(""), HasSubstr("bf16_tflops is missing"));
  EXPECT_THAT(complaint("base = \"nothing\""), HasSubstr("m.toml: its base: no such machine"));
  EXPECT_THAT(complaint("base = \"h100-sxm8-400g\""), HasSubstr("has a base itself"));
  EXPECT_THAT(complaint("base = 5"), HasSubstr("base must be a text"));
  EXPECT_THAT(complaint(with("speed = 3")), HasSubstr("unknown key 'speed'"));
  EXPECT_THAT(complaint(with("sms = 3")), HasSubstr("sms must be {"));
  EXPECT_THAT(complaint(with("sms = { value = 3 }")), HasSubstr("sms must be {"));
  EXPECT_THAT(complaint(with("sms = { value = 3, source = \"s\", validated = false, unit = 1 }")),
              HasSubstr("sms has no 'unit'"));
  EXPECT_THAT(complaint(number("sms", "0")), HasSubstr("above 0"));
  EXPECT_THAT(complaint(number("sms", "-1")), HasSubstr("above 0"));
  EXPECT_THAT(complaint(number("sms", "nan")), HasSubstr("above 0"));
  EXPECT_THAT(complaint(number("sms", "\"many\"")), HasSubstr("above 0"));
  EXPECT_THAT(complaint(number("link_latency_us", "-1")), HasSubstr("must be a number from 0"));
  EXPECT_THAT(complaint(number("op_overhead_us", "\"none\"")), HasSubstr("from 0"));
  EXPECT_THAT(complaint(number("sms", "1.5")), HasSubstr("must be a count"));
  EXPECT_THAT(complaint(number("tile_m", "1e9")), HasSubstr("must be a count"));
  EXPECT_THAT(complaint(number("gemm_share", "1.1")), HasSubstr("at most 1"));
  EXPECT_THAT(complaint(number("nic_gb_per_s", "50")), HasSubstr("nics_per_node is missing"));
}

TEST(MachineFile, UnknownMachinesListTheKnown) {
  const auto complaint_about = [](const char* name) {
    try {
      find_machine(name);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(complaint_about("h900"), HasSubstr("h100-sxm8, h100-sxm8-400g, h200-sxm8"));
  EXPECT_THAT(complaint_about("no-such-file.toml"), HasSubstr("no-such-file.toml: cannot be read"));
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "machine_file_test.toml";
  std::filesystem::create_directory(folder);
  EXPECT_THAT(complaint_about(folder.c_str()), HasSubstr("machine_file_test.toml: is a folder"));
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace commfuse
