// SPDX-License-Identifier: Apache-2.0
#include "harness/world/cache_size.h"

#include <gtest/gtest.h>

namespace commfuse {
namespace {

TEST(CacheSize, ReadsWhatTheSystemWrites) {
  EXPECT_EQ(parse_cache_size("32768K"), 32 << 20);
  EXPECT_EQ(parse_cache_size("32M"), 32 << 20);
  EXPECT_EQ(parse_cache_size("1G"), 1 << 30);
  EXPECT_EQ(parse_cache_size("512"), 512);
  for (const char* text : {"", "K", "-1K", "32 K", "32Q"}) EXPECT_EQ(parse_cache_size(text), 0);
}

TEST(CacheSize, ThisMachineHasOne) {
  EXPECT_GT(last_level_cache_bytes(), 64 << 10);
  EXPECT_LT(last_level_cache_bytes(), std::int64_t{1} << 36);
}

}  // namespace
}  // namespace commfuse
