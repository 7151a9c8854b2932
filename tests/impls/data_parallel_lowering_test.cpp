// SPDX-License-Identifier: Apache-2.0
// The exact plans of stages along output features.
#include <gtest/gtest.h>

#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

// Along output features a part of every slice is one op too: strips of W give strips of columns.
TEST(Lowering, SlicedGatherOfParameters) {
  const Workload workload = small_workload("dp/zero3", 2, 2);
  EXPECT_EQ(plan_text("sliced:n=2:axis=tokens", workload, 1), R"(
rank 1 of 2: 6 ops, 0 messages, 128 bytes of scratch
     0  gather   zero3  all_gather zero3.gathered[0:2, :] <- W[2:3, :]
     1  gather   zero3  all_gather zero3.gathered[2:4, :] <- W[3:4, :]
     2  compute  zero3  copy W[0:1, :] x 2 every 2 rows = zero3.gathered[0:1, :] x 2 every 1 rows  after 0
     3  compute  zero3  gemm Y[0:12, 0:1] x 2 every 2 columns = X[0:12, :] * W[0:1, :] x 2 every 2 rows^T
     4  compute  zero3  copy W[1:2, :] x 2 every 2 rows = zero3.gathered[2:3, :] x 2 every 1 rows  after 1
     5  compute  zero3  gemm Y[0:12, 1:2] x 2 every 2 columns = X[0:12, :] * W[1:2, :] x 2 every 2 rows^T
)");
}

TEST(Lowering, SlicedReduceScatterOfAWeightGradient) {
  const Workload workload = small_workload("dp/zero2", 2, 2);
  EXPECT_EQ(plan_text("sliced:n=2:axis=tokens", workload, 1), R"(
rank 1 of 2: 4 ops, 0 messages, 128 bytes of scratch
     0  compute  zero2  gemm zero2.partials[0:1, :] x 2 every 1 rows = dY[0:12, 0:1] x 2 every 2 columns^T * X[0:12, :]
     1  scatter  zero2  reduce_scatter dW[0:1, :] <- zero2.partials[0:2, :]  after 0
     2  compute  zero2  gemm zero2.partials[2:3, :] x 2 every 1 rows = dY[0:12, 1:2] x 2 every 2 columns^T * X[0:12, :]
     3  scatter  zero2  reduce_scatter dW[1:2, :] <- zero2.partials[2:4, :]  after 2
)");
}

TEST(Lowering, RingOfParameters) {
  const Workload workload = small_workload("dp/zero3", 3, 1);
  EXPECT_EQ(plan_text("commfuse:order=ring:m=1", workload, 1), R"(
rank 1 of 3: 5 ops, 4 messages, 0 bytes of scratch
     0  compute  zero3  gemm Y[0:18, 1:2] = X[0:18, :] * W[1:2, :]^T
     1  gather   zero3  exchange #0 send W[1:2, :] to 2, #1 receive W[0:1, :] from 0
     2  compute  zero3  gemm Y[0:18, 0:1] = X[0:18, :] * W[0:1, :]^T  after #1
     3  gather   zero3  exchange #2 send W[0:1, :] to 2, #3 receive W[2:3, :] from 0  after #1
     4  compute  zero3  gemm Y[0:18, 2:3] = X[0:18, :] * W[2:3, :]^T  after #3
)");
}

TEST(Lowering, RingEpilogueOfAWeightGradient) {
  const Workload workload = small_workload("dp/zero2", 3, 1);
  EXPECT_EQ(plan_text("commfuse:order=ring:m=1:accumulate=epilogue", workload, 0), R"(
rank 0 of 3: 5 ops, 4 messages, 64 bytes of scratch
     0  compute  zero2  gemm partial[2:3, :] = dY[0:18, 2:3]^T * X[0:18, :]
     1  scatter  zero2  exchange #0 send partial[2:3, :] to 1, #1 receive zero2.landing[0:1, :] from 2  after 0
     2  compute  zero2  gemm partial[1:2, :] = dY[0:18, 1:2]^T * X[0:18, :] + zero2.landing[0:1, :]  after #1
     3  scatter  zero2  exchange #2 send partial[1:2, :] to 1, #3 receive zero2.landing[1:2, :] from 2  after 2
     4  compute  zero2  gemm dW[0:1, :] = dY[0:18, 0:1]^T * X[0:18, :] + zero2.landing[1:2, :]  after #3
)");
}

}  // namespace
}  // namespace commfuse
