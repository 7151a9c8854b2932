// SPDX-License-Identifier: Apache-2.0
#include "harness/benchmark_request.h"

#include <gtest/gtest.h>

#include "suite/error.h"

namespace commfuse {
namespace {

TEST(BenchmarkRequest, TakesFlagsApart) {
  const BenchmarkRequest request(
      {"--benchmark_filter=a|b", "--benchmark_out=x.json", "--benchmark_format=json"});
  EXPECT_EQ(request.filter, "a|b");
  EXPECT_EQ(request.out, "x.json");
  EXPECT_TRUE(request.wanted);
  EXPECT_FALSE(request.list);
}

TEST(BenchmarkRequest, AFilterAloneWantsNoOtherOutput) {
  EXPECT_FALSE(BenchmarkRequest({"--benchmark_filter=a"}).wanted);
  EXPECT_TRUE(BenchmarkRequest({"--benchmark_list_tests"}).list);
  EXPECT_TRUE(BenchmarkRequest({"--benchmark_list_tests=true"}).list);
  EXPECT_FALSE(BenchmarkRequest({"--benchmark_list_tests=false"}).list);
}

TEST(BenchmarkRequest, RefusesValuesThatTheLibraryWouldExitOn) {
  EXPECT_THROW(BenchmarkRequest({"--benchmark_format=xml"}), UsageError);
  EXPECT_THROW(BenchmarkRequest({"--benchmark_out_format=x"}), UsageError);
  EXPECT_THROW(BenchmarkRequest({"--benchmark_time_unit=h"}), UsageError);
  EXPECT_THROW(BenchmarkRequest({"--benchmark_color=purple"}), UsageError);
  for (const char* name : {"format", "out", "out_format", "filter", "context", "color"}) {
    const std::string flag = std::string("--benchmark_") + name;
    EXPECT_THROW(BenchmarkRequest({flag + "="}), UsageError) << name;
    if (std::string_view(name) == "color") continue;  // a switch
    EXPECT_THROW(BenchmarkRequest({flag}), UsageError) << name;
  }
}

}  // namespace
}  // namespace commfuse
