// SPDX-License-Identifier: Apache-2.0
#include "harness/option_values.h"

#include <gtest/gtest.h>

#include "harness/link_request.h"
#include "suite/error.h"

namespace commfuse {
namespace {

using Counts = std::vector<std::int32_t>;

TEST(ParseCounts, ListsAndRanges) {
  EXPECT_EQ(parse_counts("256", "--tokens"), (Counts{256}));
  EXPECT_EQ(parse_counts("256:4K:*2", "--tokens"), (Counts{256, 512, 1024, 2048, 4096}));
  EXPECT_EQ(parse_counts("10:30:+10,1K", "--tokens"), (Counts{10, 20, 30, 1024}));
  EXPECT_EQ(parse_counts("3:20:*3", "--tokens"),
            (Counts{3, 9}));  // the last value only if it is met
  EXPECT_EQ(parse_counts("8,4,8,2:8:*2", "--ranks"), (Counts{8, 4, 2}));
}

TEST(ParseCounts, RefusesNonsense) {
  for (const char* text : {"", "0", "-4", "4,", ",4", "1:2", "4:2:*2", "1:8:*1", "1:8:2", "1:8:-1",
                           "x", "1.5", "9999999999", "4G", "1:2:3:4", "1:2000000000:+1"}) {
    EXPECT_THROW(parse_counts(text, "--tokens"), UsageError) << text;
  }
}

TEST(ParseLink, ReadsWhatPeopleWrite) {
  const LinkRequest fixed = parse_link("2GB/s,20us");
  EXPECT_DOUBLE_EQ(fixed.bytes_per_second, 2e9);
  EXPECT_DOUBLE_EQ(fixed.latency_seconds, 20e-6);
  EXPECT_DOUBLE_EQ(parse_link("400MB/s,3ms").latency_seconds, 3e-3);
  EXPECT_DOUBLE_EQ(parse_link("auto:0.4").auto_ratio, 0.4);
  EXPECT_EQ(parse_link("unlimited").bytes_per_second, 0);
  EXPECT_EQ(parse_link("auto:0.4").text, "auto:0.4");
}

TEST(ParseLink, RefusesNonsense) {
  for (const char* text : {"", "2GB/s", "2,3", "-2GB/s,1us", "0GB/s,1us", "auto:", "auto:0",
                           "auto:-1", "auto:nan", "auto:x", "fast", "2GB/s,20", "infGB/s,1us"}) {
    EXPECT_THROW(parse_link(text), UsageError) << text;
  }
}

}  // namespace
}  // namespace commfuse
