// SPDX-License-Identifier: Apache-2.0
// The exact plans of stages along output features.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

// Along output features a part of every slice is one op too: strips of W give strips of columns.
TEST(Lowering, SlicedGatherOfParameters) {
  const Workload workload = small_workload("dp/zero3", 2, 2);
  EXPECT_EQ(plan_text("sliced:n=2:axis=tokens", workload, 1), R"(
rank 1 of 2: 12 ops, 0 messages, 128 bytes of scratch
     0  gather   up  all_gather up.gathered[0:2, :] <- W_up[2:3, :]
     1  gather   up  all_gather up.gathered[2:4, :] <- W_up[3:4, :]
     2  compute  up  copy W_up[0:1, :] x 2 every 2 rows = up.gathered[0:1, :] x 2 every 1 rows  after 0
     3  compute  up  gemm Y_up[0:12, 0:1] x 2 every 2 columns = X[0:12, :] * W_up[0:1, :] x 2 every 2 rows^T
     4  compute  up  copy W_up[1:2, :] x 2 every 2 rows = up.gathered[2:3, :] x 2 every 1 rows  after 1
     5  compute  up  gemm Y_up[0:12, 1:2] x 2 every 2 columns = X[0:12, :] * W_up[1:2, :] x 2 every 2 rows^T
     6  gather   down  all_gather down.gathered[0:2, :] <- W_down[2:3, :]
     7  gather   down  all_gather down.gathered[2:4, :] <- W_down[3:4, :]
     8  compute  down  copy W_down[0:1, :] x 2 every 2 rows = down.gathered[0:1, :] x 2 every 1 rows  after 6
     9  compute  down  gemm Y_down[0:12, 0:1] x 2 every 2 columns = Y_up[0:12, :] * W_down[0:1, :] x 2 every 2 rows^T
    10  compute  down  copy W_down[1:2, :] x 2 every 2 rows = down.gathered[2:3, :] x 2 every 1 rows  after 7
    11  compute  down  gemm Y_down[0:12, 1:2] x 2 every 2 columns = Y_up[0:12, :] * W_down[1:2, :] x 2 every 2 rows^T
)");
}

TEST(Lowering, SlicedReduceScatterOfAWeightGradient) {
  const Workload workload = small_workload("dp/zero2", 2, 2);
  EXPECT_EQ(plan_text("sliced:n=2:axis=tokens", workload, 1), R"(
rank 1 of 2: 9 ops, 0 messages, 128 bytes of scratch
     0  compute  dgrad_down  gemm dY_up[0:12, :] = dY_down[0:12, :] * W_down[0:4, :]
     1  compute  wgrad_down  gemm wgrad_down.partials[0:1, :] x 2 every 1 rows = dY_down[0:12, 0:1] x 2 every 2 columns^T * X_down[0:12, :]
     2  scatter  wgrad_down  reduce_scatter dW_down[0:1, :] <- wgrad_down.partials[0:2, :]  after 1
     3  compute  wgrad_down  gemm wgrad_down.partials[2:3, :] x 2 every 1 rows = dY_down[0:12, 1:2] x 2 every 2 columns^T * X_down[0:12, :]
     4  scatter  wgrad_down  reduce_scatter dW_down[1:2, :] <- wgrad_down.partials[2:4, :]  after 3
     5  compute  wgrad_up  gemm wgrad_up.partials[0:1, :] x 2 every 1 rows = dY_up[0:12, 0:1] x 2 every 2 columns^T * X_up[0:12, :]
     6  scatter  wgrad_up  reduce_scatter dW_up[0:1, :] <- wgrad_up.partials[0:2, :]  after 5
     7  compute  wgrad_up  gemm wgrad_up.partials[2:3, :] x 2 every 1 rows = dY_up[0:12, 1:2] x 2 every 2 columns^T * X_up[0:12, :]
     8  scatter  wgrad_up  reduce_scatter dW_up[1:2, :] <- wgrad_up.partials[2:4, :]  after 7
)");
}

TEST(Lowering, RingOfParameters) {
  const Workload workload = small_workload("dp/zero3", 3, 1);
  EXPECT_EQ(plan_text("commfuse:order=ring:m=1", workload, 1), R"(
rank 1 of 3: 10 ops, 8 messages, 0 bytes of scratch
     0  compute  up  gemm Y_up[0:18, 1:2] = X[0:18, :] * W_up[1:2, :]^T
     1  gather   up  exchange #0 send W_up[1:2, :] to 2, #1 receive W_up[0:1, :] from 0
     2  compute  up  gemm Y_up[0:18, 0:1] = X[0:18, :] * W_up[0:1, :]^T  after #1
     3  gather   up  exchange #2 send W_up[0:1, :] to 2, #3 receive W_up[2:3, :] from 0  after #1
     4  compute  up  gemm Y_up[0:18, 2:3] = X[0:18, :] * W_up[2:3, :]^T  after #3
     5  compute  down  gemm Y_down[0:18, 1:2] = Y_up[0:18, :] * W_down[1:2, :]^T
     6  gather   down  exchange #4 send W_down[1:2, :] to 2, #5 receive W_down[0:1, :] from 0
     7  compute  down  gemm Y_down[0:18, 0:1] = Y_up[0:18, :] * W_down[0:1, :]^T  after #5
     8  gather   down  exchange #6 send W_down[0:1, :] to 2, #7 receive W_down[2:3, :] from 0  after #5
     9  compute  down  gemm Y_down[0:18, 2:3] = Y_up[0:18, :] * W_down[2:3, :]^T  after #7
)");
}

// The own slice of the first gradient waits for its partial under the second.
TEST(Lowering, RingEpilogueOfAWeightGradient) {
  const Workload workload = small_workload("dp/zero2", 3, 1);
  EXPECT_EQ(plan_text("commfuse:order=ring:m=1:accumulate=epilogue", workload, 0), R"(
rank 0 of 3: 11 ops, 8 messages, 48 bytes of scratch
     0  compute  dgrad_down  gemm dY_up[0:18, :] = dY_down[0:18, :] * W_down[0:3, :]
     1  compute  wgrad_down  gemm partial_down[2:3, :] = dY_down[0:18, 2:3]^T * X_down[0:18, :]
     2  scatter  wgrad_down  exchange #0 send partial_down[2:3, :] to 1, #1 receive wgrad_down.landing[0:1, :] from 2  after 1
     3  compute  wgrad_down  gemm partial_down[1:2, :] = dY_down[0:18, 1:2]^T * X_down[0:18, :] + wgrad_down.landing[0:1, :]  after #1
     4  scatter  wgrad_down  exchange #2 send partial_down[1:2, :] to 1, #3 receive wgrad_down.landing[1:2, :] from 2  after 3
     5  compute  wgrad_up  gemm partial_up[2:3, :] = dY_up[0:18, 2:3]^T * X_up[0:18, :]
     6  scatter  wgrad_up  exchange #4 send partial_up[2:3, :] to 1, #5 receive wgrad_up.landing[0:1, :] from 2  after 5
     7  compute  wgrad_up  gemm partial_up[1:2, :] = dY_up[0:18, 1:2]^T * X_up[0:18, :] + wgrad_up.landing[0:1, :]  after #5
     8  scatter  wgrad_up  exchange #6 send partial_up[1:2, :] to 1, #7 receive wgrad_up.landing[1:2, :] from 2  after 7
     9  compute  wgrad_down  gemm dW_down[0:1, :] = dY_down[0:18, 0:1]^T * X_down[0:18, :] + wgrad_down.landing[1:2, :]  after #3
    10  compute  wgrad_up  gemm dW_up[0:1, :] = dY_up[0:18, 0:1]^T * X_up[0:18, :] + wgrad_up.landing[1:2, :]  after #7
)");
}

// Rank 0 of 3: two maps of 3 rows in a bucket of which each rank has 2 rows, so the slice of rank 1
// lies across both.
TEST(Lowering, ABucketOfTwoMaps) {
  const Shape shape{.hidden = 3,
                    .ffn = 3,
                    .layers = 2,
                    .activation = Activation::relu,
                    .tokens = 8,
                    .bucket = 2 * 3 * 3 * 4};
  const Workload workload = find_workloads("dp/zero2").front()->build(shape, 3);
  EXPECT_EQ(workload.stages[3].name, "wgrad_down1_to_down0");
  const auto ops_of = [&](const Tile& tile, const Target& target) {
    std::string text;
    for (const Compute& op : workload.stages[3].phases[0](tile, target)) {
      const auto name = [&](const View& view) {
        return describe(view, workload.tensors[view.tensor]);
      };
      const Gemm& gemm = std::get<Gemm>(op);
      EXPECT_EQ(misfit(op), "");
      text += fmt::format("{} = {} {}\n", name(gemm.d), name(gemm.a), name(gemm.b));
    }
    return text;
  };
  EXPECT_EQ("\n" + ops_of({}, {}), R"(
partial_down1_to_down0[0:3, :] = dY_down1[0:8, :] X_down1[0:8, :]
partial_down1_to_down0[3:6, :] = dY_down0[0:8, :] X_down0[0:8, :]
)");
  EXPECT_EQ("\n" + ops_of({.peer = 1}, {}), R"(
partial_down1_to_down0[2:3, :] = dY_down1[0:8, 2:3] X_down1[0:8, :]
partial_down1_to_down0[3:4, :] = dY_down0[0:8, 0:1] X_down0[0:8, :]
)");
  // The first rows of all slices, into the rows of a result: strips of one map are one op.
  View d = whole(workload.stages[3].reduce_scatter->partial, workload.tensors[0]);
  d = {.tensor = d.tensor, .row = 3, .rows = 1, .cols = 3, .strips = 3, .row_step = 1};
  EXPECT_EQ("\n" + ops_of({.part = 0, .parts = 2}, {.d = d, .c = d}), R"(
partial_down1_to_down0[3:4, :] x 2 every 1 rows = dY_down1[0:8, 0:1] x 2 every 2 columns X_down1[0:8, :]
partial_down1_to_down0[5:6, :] = dY_down0[0:8, 1:2] X_down0[0:8, :]
)");
}

/// Lane and stage of each op.
std::string order_of(const Plan& plan, const Workload& workload) {
  std::string text;
  for (const Op& op : plan.ops) {
    text += fmt::format("{} {}\n", name_of(op.lane), workload.stages[op.stage].name);
  }
  return text;
}

// Own slices, whose partials have travelled by then, and steps follow the backward pass; the
// weights of one bucket are gathered under the step of the next.
TEST(Lowering, ZeroOneStepsAfterTheBackwardPass) {
  const Workload workload = small_workload("dp/zero1", 2, 1);
  for (const Plan& plan : plans_of("commfuse:m=1", workload)) {
    EXPECT_EQ("\n" + order_of(plan, workload), R"(
compute dgrad_down
compute wgrad_down
scatter wgrad_down
compute wgrad_up
scatter wgrad_up
compute wgrad_down
compute step_down
gather gather_down
compute wgrad_up
compute step_up
gather gather_up
)");
  }
}

// The own slice of a gradient, and the gather of the sum, wait until the next stage has been
// computed: its partial travels meanwhile. Only the last gradient has nothing to wait under.
TEST(Lowering, AllReduceOfTwoLayersWaitsUnderTheNextStage) {
  const Shape shape{
      .hidden = 4, .ffn = 4, .layers = 2, .activation = Activation::relu, .tokens = 8};
  const Workload workload = find_workloads("dp/ddp").front()->build(shape, 2);
  const std::vector<Plan> plans = plans_of("commfuse:m=1", workload);
  for (const Plan& plan : plans) {
    EXPECT_EQ("\n" + order_of(plan, workload), R"(
compute dgrad_down1
compute wgrad_down1
scatter wgrad_down1
compute dgrad_up1
compute wgrad_down1
gather wgrad_down1
compute wgrad_up1
scatter wgrad_up1
compute dgrad_down0
compute wgrad_up1
gather wgrad_up1
compute wgrad_down0
scatter wgrad_down0
compute wgrad_up0
scatter wgrad_up0
compute wgrad_down0
gather wgrad_down0
compute wgrad_up0
gather wgrad_up0
)");
  }
}

}  // namespace
}  // namespace commfuse
