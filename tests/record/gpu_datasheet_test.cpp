// SPDX-License-Identifier: Apache-2.0
#include "harness/record/gpu_datasheet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace commfuse {
namespace {

/// bf16 as printed with 2:4 sparsity, for every row: what the dense figure is half of.
constexpr std::pair<const char*, double> kSparseBf16[] = {
    {"NVIDIA A100-SXM4-40GB", 624},
    {"NVIDIA A100-SXM4-80GB", 624},
    {"NVIDIA A100-PCIE-40GB", 624},
    {"NVIDIA A100 80GB PCIe", 624},
    {"NVIDIA A30", 330},
    {"NVIDIA A10", 250},
    {"NVIDIA L4", 242},
    {"NVIDIA L40S", 733},
    {"NVIDIA H100 80GB HBM3", 1979},
    {"NVIDIA H100 PCIe", 1513},
    {"NVIDIA H100 NVL", 1671},
    {"NVIDIA H200", 1979},
    {"NVIDIA H200 NVL", 1671},
    {"NVIDIA B200", 4500},
    {"NVIDIA GB200", 5000},
};

TEST(GpuDatasheet, CaseG1PeaksAreHalfOfTheFiguresWithSparsity) {
  EXPECT_EQ(gpu_datasheets().size(), std::size(kSparseBf16));
  for (const auto& [device, sparse] : kSparseBf16) {
    const GpuDatasheet* row = datasheet_of(device);
    ASSERT_NE(row, nullptr) << device;
    EXPECT_NEAR(row->bf16_tflops, sparse / 2, 0.013 * sparse / 2) << device;
  }
}

TEST(GpuDatasheet, CaseG3RowsAreConsistentInThemselves) {
  std::set<std::string_view> devices;
  for (const GpuDatasheet& row : gpu_datasheets()) {
    EXPECT_TRUE(devices.insert(row.device).second) << row.device;
    EXPECT_FALSE(row.source.empty()) << row.device;
    EXPECT_EQ(row.fp16_tflops, row.bf16_tflops) << row.device;
    EXPECT_NEAR(row.tf32_tflops, row.bf16_tflops / 2, 0.03 * row.bf16_tflops) << row.device;
    EXPECT_LT(row.fp32_tflops, row.tf32_tflops) << row.device;
    EXPECT_GT(row.memory_gb_per_s, 0) << row.device;
    EXPECT_LT(row.nvlink_gb_per_s, row.memory_gb_per_s) << row.device;
    EXPECT_TRUE(!row.nvlink_by_bridge || row.nvlink_gb_per_s > 0) << row.device;
  }
}

TEST(GpuDatasheet, NvlinkCountsOneDirection) {
  EXPECT_EQ(datasheet_of("NVIDIA A100-SXM4-80GB")->nvlink_gb_per_s, 600 / 2);
  EXPECT_EQ(datasheet_of("NVIDIA H200")->nvlink_gb_per_s, 900 / 2);
  EXPECT_EQ(datasheet_of("NVIDIA GB200")->nvlink_gb_per_s, 1800 / 2);
}

TEST(GpuDatasheet, NamesAreTakenAsAWhole) {
  EXPECT_EQ(datasheet_of("NVIDIA A10")->bf16_tflops, 125);
  EXPECT_EQ(datasheet_of("NVIDIA H200 NVL")->bf16_tflops, 835.5);
  EXPECT_EQ(datasheet_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), nullptr);
  EXPECT_EQ(datasheet_of("NVIDIA A100"), nullptr);
  EXPECT_EQ(datasheet_of(""), nullptr);
}

}  // namespace
}  // namespace commfuse
