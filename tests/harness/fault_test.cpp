// SPDX-License-Identifier: Apache-2.0
#include "harness/fault.h"

#include <gtest/gtest.h>

#include "suite/error.h"

namespace commfuse {
namespace {

TEST(Fault, Parses) {
  EXPECT_EQ(parse_fault("").kind, FaultKind::none);
  const Fault fault = parse_fault("hang:rank=3:group=2");
  EXPECT_EQ(fault.kind, FaultKind::hang);
  EXPECT_EQ(fault.rank, 3);
  EXPECT_EQ(fault.group, 2);
  for (const char* text : {"nothing", "kill:rank", "kill:rank=x", "kill:size=2", "kill:rank=1=2"}) {
    EXPECT_THROW(parse_fault(text), UsageError) << text;
  }
}

TEST(Fault, StrikesOnlyItsRankAndGroup) {
  const Fault fault = parse_fault("fail:rank=1:group=2");
  strike(fault, 0, 2);
  strike(fault, 1, 1);
  EXPECT_THROW(strike(fault, 1, 2), std::runtime_error);
}

/// Half of the reduction is left out, in whatever form the gemm has; the shapes still fit.
TEST(Fault, CorruptedGemmsAreOfHalfTheDepth) {
  const Fault fault = parse_fault("corrupt:rank=1");
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const auto matrix = [](std::int32_t rows, std::int32_t cols, bool transposed) {
        return transposed ? View{.rows = cols, .cols = rows} : View{.rows = rows, .cols = cols};
      };
      const Gemm sound{.d = matrix(3, 5, false),
                       .a = matrix(3, 8, transpose_a),
                       .b = matrix(8, 5, transpose_b),
                       .c = {},
                       .transpose_a = transpose_a,
                       .transpose_b = transpose_b};
      Plan plan;
      plan.ops.push_back({.work = sound});
      damage(fault, 0, 0, plan);
      EXPECT_EQ(flops(std::get<Gemm>(plan.ops[0].work)), flops(sound));
      damage(fault, 1, 0, plan);
      const auto& damaged = std::get<Gemm>(plan.ops[0].work);
      EXPECT_EQ(flops(damaged), flops(sound) / 2);
      EXPECT_EQ(misfit(damaged), "");
    }
  }
}

}  // namespace
}  // namespace commfuse
