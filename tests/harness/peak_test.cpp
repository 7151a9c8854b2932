// SPDX-License-Identifier: Apache-2.0
#include "harness/peak.h"

#include <gtest/gtest.h>

#include "harness/world/thread_world.h"

namespace commfuse {
namespace {

const Peak kMeasured{"measured bf16 gemm peak", 6e14};

TEST(Peak, CaseG1TheDatasheetsDensePeakIsNamedWithItsSource) {
  const RankDevice device{"NVIDIA H200", 1};
  const Peak peak = reference_peak({}, device, DType::bf16, kMeasured);
  EXPECT_EQ(peak.name, "bf16 peak (NVIDIA H200 datasheet, SXM, half of the figures with sparsity)");
  EXPECT_DOUBLE_EQ(peak.flops_per_second, 989.5e12);
}

TEST(Peak, CaseG3EachKindOfGemmHasItsOwn) {
  const RankDevice device{"NVIDIA A100-SXM4-80GB", 1};
  Options options;
  EXPECT_DOUBLE_EQ(reference_peak(options, device, DType::f32, kMeasured).flops_per_second,
                   19.5e12);
  options.settings.tf32 = true;
  EXPECT_DOUBLE_EQ(reference_peak(options, device, DType::f32, kMeasured).flops_per_second, 156e12);
  EXPECT_DOUBLE_EQ(reference_peak(options, device, DType::bf16, kMeasured).flops_per_second,
                   312e12);
}

TEST(Peak, CaseG4RanksThatShareADeviceShareItsPeak) {
  const Peak peak = reference_peak({}, {"NVIDIA H200", 2}, DType::bf16, kMeasured);
  EXPECT_DOUBLE_EQ(peak.flops_per_second, 989.5e12 / 2);
  EXPECT_NE(peak.name.find("of a device that 2 ranks share"), std::string::npos) << peak.name;
}

TEST(Peak, AnUnknownDeviceKeepsTheMeasuredOne) {
  for (const char* device : {"", "made-up GPU"}) {
    const Peak peak = reference_peak({}, {device, 1}, DType::bf16, kMeasured);
    EXPECT_EQ(peak.name, kMeasured.name);
    EXPECT_EQ(peak.flops_per_second, kMeasured.flops_per_second);
  }
  // Known, but not for this dtype.
  EXPECT_EQ(reference_peak({}, {"NVIDIA B200", 1}, DType::f32, kMeasured).name, kMeasured.name);
}

TEST(Peak, TheUsersOwnComesFirst) {
  Options options;
  options.peak_tflops = 800;
  const Peak peak = reference_peak(options, {"NVIDIA H200", 2}, DType::bf16, kMeasured);
  EXPECT_EQ(peak.name, "peak given by --peak-tflops");
  EXPECT_DOUBLE_EQ(peak.flops_per_second, 800e12);
}

TEST(Peak, DevicesThatDifferHaveNoName) {
  run_thread_ranks(3, [](World& world) {
    const RankDevice same = agreed_device(world, {"one", world.rank() + 1});
    EXPECT_EQ(same.name, "one");
    EXPECT_EQ(same.ranks, 3);
    EXPECT_EQ(agreed_device(world, {world.rank() == 2 ? "two" : "one", 1}).name, "");
  });
}

}  // namespace
}  // namespace commfuse
