// SPDX-License-Identifier: Apache-2.0
// Times of whole schedules against what can be worked out by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/record/golden_file.h"
#include "tests/sim/simulated.h"

namespace commfuse {
namespace {

double microseconds(Picoseconds time) { return static_cast<double>(time) * 1e-6; }

double reduce_scatter_us(std::string_view implementation, std::int32_t ranks) {
  return microseconds(
      simulated(large_workload("tpsp/gemm_rs", ranks), implementation, fast_machine()).end());
}

TEST(ScheduleTimes, PlainIsComputeThenTheStepsOfTheCollective) {
  EXPECT_NEAR(reduce_scatter_us("plain", 2), 2919.55, 0.005);
  EXPECT_NEAR(reduce_scatter_us("plain", 8), 1001.80, 0.005);
}

TEST(ScheduleTimes, CommfuseLeavesTheComputeAlone) {
  EXPECT_NEAR(reduce_scatter_us("commfuse:order=direct:m=1", 2), 2748.78, 0.005);
  EXPECT_NEAR(reduce_scatter_us("commfuse:order=direct:m=1", 8), 687.19, 0.005);
}

TEST(ScheduleTimes, SlicedExposesItsLastCollective) {
  // 8 ranks: compute, and 1/4 of the bytes with the latency of every step once more.
  const double part = 7 * 3 + 7 * (8192.0 / 8 / 4) * 8192 * 2 / 400e9 * 1e6;
  EXPECT_NEAR(reduce_scatter_us("sliced:n=4", 8), 687.19 + part, 0.01);
}

TEST(ScheduleTimes, OnePartThatAddsInTheEpilogueHidesNothing) {
  // Every hop waits for a gemm that waits for the hop before.
  EXPECT_NEAR(reduce_scatter_us("commfuse:order=ring:m=1:accumulate=epilogue", 8),
              reduce_scatter_us("plain", 8), 0.01);
}

/// Exposed share of compute_only where communication takes `ratio` of the compute, without latency.
double exposed(std::string_view implementation, std::int32_t ranks, double ratio) {
  constexpr double kFlops = 1e12;
  const Workload workload = large_workload("tpsp/gemm_rs", ranks, 1024);
  const double compute_s = static_cast<double>(workload.model_flops) / kFlops;
  const double bytes = 1024.0 * 8192 * 2 * (ranks - 1) / ranks;
  MachineModel machine = ideal_machine("ideal:flops=1T,link=1GB/s,latency=0us");
  machine.network.inner.bytes_per_second = bytes / (ratio * compute_s);
  return static_cast<double>(simulated(workload, implementation, machine).end()) * 1e-12 /
             compute_s -
         1;
}

/// SCHEDULES, section 2: a ring hides everything if communication takes no more than this share of
/// the compute: 1 - kept / (P * m).
struct Hiding {
  const char* implementation;
  double kept;  // 2 with epilogue, 1 with add
  std::int32_t m;
};
class HidingCondition : public testing::TestWithParam<Hiding> {};

TEST_P(HidingCondition, IsMetJustBelowItsLimitAndNotAbove) {
  const auto [implementation, kept, m] = GetParam();
  for (const std::int32_t ranks : {4, 8}) {
    const double share = 1 - kept / (ranks * m);
    EXPECT_NEAR(exposed(implementation, ranks, 0.99 * share), 0, 1e-6) << ranks;
    EXPECT_GT(exposed(implementation, ranks, 1.02 * share), 1e-3) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, HidingCondition,
                         testing::Values(Hiding{"commfuse:m=2:accumulate=epilogue", 2, 2},
                                         Hiding{"commfuse:m=4:accumulate=epilogue", 2, 4},
                                         Hiding{"commfuse:m=1:accumulate=add", 1, 1}));

/// Every case of a small matrix, one line each.
std::string table_of_times() {
  std::string text;
  for (const char* name :
       {"tpsp/ag_gemm", "tpsp/gemm_rs", "tpsp/mlp", "ulysses/block", "dp/zero2"}) {
    for (const std::int32_t ranks : {2, 4, 8}) {
      const Workload workload = large_workload(name, ranks);
      for (const char* spec : {"compute_only", "comm_only", "plain", "bulk", "sliced:n=4",
                               "commfuse", "commfuse:order=direct"}) {
        if (!unsupported(make_implementation(spec, workload), workload).empty()) continue;
        text += fmt::format("{}, {} ranks, {}, ps:", name, ranks, spec);
        for (const Protocol protocol : {Protocol::put, Protocol::rendezvous, Protocol::joint}) {
          text += fmt::format(" {} {}", name_of(protocol),
                              simulated(workload, spec, fast_machine(), protocol).end());
        }
        text += '\n';
      }
    }
  }
  return text;
}

TEST(ScheduleTimes, AreThoseOfTheGoldenFileToThePicosecond) {
  test::expect_golden("simulated_times.txt", table_of_times());
}

}  // namespace
}  // namespace commfuse
