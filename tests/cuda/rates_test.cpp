// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace commfuse {
namespace {

using testing::HasSubstr;
using Times = std::vector<std::vector<std::int64_t>>;

const std::string kH200 = "NVIDIA H200";

TEST(Rates, BytesOverTime) {
  EXPECT_DOUBLE_EQ(gb_per_second(3'000'000, 1'000), 3000);
  EXPECT_DOUBLE_EQ(gb_per_second(1'000, 1'000'000), 0.001);
}

TEST(Rates, AnIterationTakesAsLongAsItsSlowestRank) {
  EXPECT_EQ(median_of_slowest(Times{{1, 9, 3}, {5, 2, 4}}), 5);  // of 5, 9, 4
  EXPECT_EQ(median_of_slowest(Times{{7}}), 7);
}

TEST(Rates, CollectivesAreThoseOfNcclTests) {
  // 128 MiB in a millisecond; on 4 ranks three quarters of them cross a link.
  EXPECT_EQ(collective_text("all_gather", 128 << 20, 1'000'000, 4),
            "algbw 134.2 GB/s, busbw 100.7 GB/s");
  EXPECT_EQ(collective_text("reduce_scatter", 1'000'000'000, 1'000'000'000, 2),
            "algbw 1.0 GB/s, busbw 0.5 GB/s");
}

TEST(Rates, AShareNamesItsDenominatorAndItsSource) {
  EXPECT_EQ(share_text(3600, kMemoryBandwidth, kH200),
            "75 % of memory bandwidth, 4800 GB/s (NVIDIA H200 datasheet, SXM, half of the figures "
            "with sparsity)");
  EXPECT_THAT(share_text(494.75, kBf16Peak, kH200),
              HasSubstr("50 % of the dense bf16 peak, 989.5 TFLOP/s ("));
  EXPECT_THAT(share_text(150, kNvlinkBandwidth, "NVIDIA A100 80GB PCIe"),
              HasSubstr("50 % of NVLink each way by a bridge, 300 GB/s ("));
}

TEST(Rates, WithoutADatasheetOrItsFigureThereIsNoShare) {
  EXPECT_EQ(share_text(1, kBf16Peak, "made-up GPU"), "no datasheet of 'made-up GPU' is known here");
  EXPECT_EQ(share_text(20, kNvlinkBandwidth, "NVIDIA L40S"),
            "no figure of NVLink each way in its datasheet (NVIDIA L40S datasheet, dense)");
}

TEST(Rates, MoreThanAllOfItIsFlagged) {
  EXPECT_THAT(share_text(5000, kMemoryBandwidth, kH200), HasSubstr("104 % of memory bandwidth"));
  EXPECT_THAT(share_text(5000, kMemoryBandwidth, kH200), HasSubstr("above 100 %"));
  EXPECT_THAT(share_text(4800, kMemoryBandwidth, kH200), testing::Not(HasSubstr("above 100 %")));
}

TEST(Rates, OfSeveralDevicesTheLeastIsNamed) {
  const std::array one{DeviceRate{0, kH200, 4800}};
  EXPECT_THAT(device_rates_text(one, kMemoryBandwidth), testing::StartsWith("4800.0 GB/s, 100 %"));
  const std::array three{DeviceRate{0, kH200, 4700}, DeviceRate{2, kH200, 2400},
                         DeviceRate{4, kH200, 4800}};
  EXPECT_THAT(
      device_rates_text(three, kMemoryBandwidth),
      testing::StartsWith("2400.0 to 4800.0 GB/s on 3 devices, least that of rank 2: 50 %"));
}

TEST(Rates, OfPairsTheSlowestIsNamed) {
  const std::array devices{kH200, kH200, kH200};
  EXPECT_THAT(link_rates_text({{0, 1, 300}, {2, 1, 225}, {1, 0, 400}}, devices),
              testing::StartsWith("least 225.0 GB/s (rank 2 to 1), median 300.0, most 400.0 GB/s: "
                                  "50 % of NVLink each way, 450 GB/s ("));
}

TEST(Rates, Sizes) {
  EXPECT_EQ(mib_text(256 << 20), "256 MiB");
  EXPECT_EQ(mib_text(3 << 19), "1.5 MiB");
  EXPECT_EQ(mib_text(4096), "4096 bytes");
}

}  // namespace
}  // namespace commfuse
