// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "harness/sim/machine_model.h"
#include "suite/error.h"

namespace commfuse {
namespace {

TEST(IdealMachine, HasTheStatedRates) {
  const MachineModel machine = ideal_machine("ideal:flops=700T,link=400GB/s,latency=3us");
  EXPECT_EQ(machine.name, "ideal:flops=700T,link=400GB/s,latency=3us");
  EXPECT_EQ(machine.network.inner.bytes_per_second, 400e9);
  EXPECT_EQ(machine.network.inner.latency_seconds, 3e-6);
  for (const double peak : machine.peak_flops_per_second) EXPECT_EQ(peak, 700e12);
  const std::vector<Tensor> tensors{{"x", 70, 1000, DType::bf16}};
  const View all = whole(0, tensors[0]);
  Gemm gemm;
  gemm.d = {.rows = 70, .cols = 500};
  gemm.a = all;
  gemm.b = {.rows = 500, .cols = 1000};
  EXPECT_EQ(machine.compute->time(gemm, tensors), 100'000);
  EXPECT_EQ(machine.compute->time(Copy{all, all}, tensors), 0);
}

TEST(IdealMachine, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"ideal", "ideal:", "ideal:flops=700T", "ideal:link=400GB/s", "ideal:flops=0T,link=1GB/s",
        "ideal:flops=700,link=400GB/s", "ideal:flops=-1T,link=400GB/s",
        "ideal:flops=700T,link=400,latency=3us", "ideal:flops=700T,link=400GB/s,latency=3",
        "ideal:flops=700T,link=400GB/s,ranks=8", "ideal:flops=nanT,link=400GB/s",
        "ideal:flops=1T,flops=2T,link=400GB/s"}) {
    EXPECT_THROW(ideal_machine(text), UsageError) << text;
  }
}

}  // namespace
}  // namespace commfuse
