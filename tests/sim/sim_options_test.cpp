// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/sim_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suite/error.h"

namespace commfuse {
namespace {

using ::testing::HasSubstr;

std::string complaint(std::vector<std::string> arguments) {
  try {
    parse_sim_options(std::move(arguments));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SimOptions, SelectAsTheBenchmarkDoes) {
  const SimOptions options = parse_sim_options(
      {"--machine", "ideal:flops=1T,link=1GB/s", "--ranks", "8:64:*2", "--protocol", "rendezvous",
       "--link", "2GB/s,20us", "--link", "auto:0.5", "--out", "r.jsonl", "--resume"});
  EXPECT_EQ(options.machine, "ideal:flops=1T,link=1GB/s");
  EXPECT_EQ(options.ranks, (std::vector<std::int32_t>{8, 16, 32, 64}));
  EXPECT_EQ(options.workloads, Selection().workloads);
  EXPECT_EQ(options.protocol, Protocol::rendezvous);
  ASSERT_EQ(options.links.size(), 2U);
  EXPECT_EQ(options.links[1].auto_ratio, 0.5);
  EXPECT_EQ(options.out, "r.jsonl");
  EXPECT_TRUE(options.resume);
  EXPECT_EQ(options.action, Action::run);
}

TEST(SimOptions, NoArgumentsAskForHelp) {
  EXPECT_EQ(parse_sim_options({}).action, Action::help);
  EXPECT_EQ(parse_sim_options({"--help"}).action, Action::help);
  EXPECT_EQ(parse_sim_options({"--version"}).action, Action::version);
}

TEST(SimOptions, ComplainInOneLine) {
  EXPECT_THAT(complaint({"--protocol", "none"}), HasSubstr("put, rendezvous, joint"));
  EXPECT_THAT(complaint({"--ranks", "0"}), HasSubstr("--ranks"));
  EXPECT_THAT(complaint({"--link", "fast"}), HasSubstr("fast"));
  EXPECT_THAT(complaint({"--threads", "2"}), HasSubstr("--help"));
  EXPECT_THAT(complaint({"--resume"}), HasSubstr("--out"));
  EXPECT_EQ(complaint({"--costs", ""}), "--costs takes a file name");
}

}  // namespace
}  // namespace commfuse
