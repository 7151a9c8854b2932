// SPDX-License-Identifier: Apache-2.0
// The exact plans of small cases, in the words of explain_text.
#include <gtest/gtest.h>

#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

// Rank 0 of 3 computes slices 2, 1, 0; what stays is computed last, and every received partial
// rides in a later gemm.
TEST(Lowering, RingEpilogueReduceScatter) {
  const Workload workload = small_workload("tpsp/gemm_rs", 3, 2);
  EXPECT_EQ(plan_text("commfuse:order=ring:m=2:accumulate=epilogue", workload, 0), R"(
rank 0 of 3: 10 ops, 8 messages, 128 bytes of scratch
     0  compute  gemm_rs  gemm partial[4:5, :] = A[4:5, :] * D[0:8, :]^T
     1  scatter  gemm_rs  exchange #0 send partial[4:5, :] to 1, #1 receive gemm_rs.landing[0:1, :] from 2  after 0
     2  compute  gemm_rs  gemm partial[5:6, :] = A[5:6, :] * D[0:8, :]^T
     3  scatter  gemm_rs  exchange #2 send partial[5:6, :] to 1, #3 receive gemm_rs.landing[1:2, :] from 2  after 2
     4  compute  gemm_rs  gemm partial[2:3, :] = A[2:3, :] * D[0:8, :]^T + gemm_rs.landing[0:1, :]  after #1
     5  scatter  gemm_rs  exchange #4 send partial[2:3, :] to 1, #5 receive gemm_rs.landing[2:3, :] from 2  after 4
     6  compute  gemm_rs  gemm partial[3:4, :] = A[3:4, :] * D[0:8, :]^T + gemm_rs.landing[1:2, :]  after #3
     7  scatter  gemm_rs  exchange #6 send partial[3:4, :] to 1, #7 receive gemm_rs.landing[3:4, :] from 2  after 6
     8  compute  gemm_rs  gemm result[0:1, :] = A[0:1, :] * D[0:8, :]^T + gemm_rs.landing[2:3, :]  after #5
     9  compute  gemm_rs  gemm result[1:2, :] = A[1:2, :] * D[0:8, :]^T + gemm_rs.landing[3:4, :]  after #7
)");
}

// Rank 1 of 3 computes slices 1, 0, 2 and forwards what it has just received.
TEST(Lowering, RingGather) {
  const Workload workload = small_workload("tpsp/ag_gemm", 3, 2);
  EXPECT_EQ(plan_text("commfuse:order=ring:m=2", workload, 1), R"(
rank 1 of 3: 10 ops, 8 messages, 0 bytes of scratch
     0  compute  ag_gemm  gemm H[2:3, :] = X[2:3, :] * U[0:6, :]^T
     1  compute  ag_gemm  gemm H[3:4, :] = X[3:4, :] * U[0:6, :]^T
     2  gather   ag_gemm  exchange #0 send X[2:3, :] to 2, #1 receive X[0:1, :] from 0
     3  compute  ag_gemm  gemm H[0:1, :] = X[0:1, :] * U[0:6, :]^T  after #1
     4  gather   ag_gemm  exchange #2 send X[3:4, :] to 2, #3 receive X[1:2, :] from 0
     5  compute  ag_gemm  gemm H[1:2, :] = X[1:2, :] * U[0:6, :]^T  after #3
     6  gather   ag_gemm  exchange #4 send X[0:1, :] to 2, #5 receive X[4:5, :] from 0  after #1
     7  compute  ag_gemm  gemm H[4:5, :] = X[4:5, :] * U[0:6, :]^T  after #5
     8  gather   ag_gemm  exchange #6 send X[1:2, :] to 2, #7 receive X[5:6, :] from 0  after #3
     9  compute  ag_gemm  gemm H[5:6, :] = X[5:6, :] * U[0:6, :]^T  after #7
)");
}

// Rank 2 of 3: the first phase of slice 2, slices 1 and 0 whole, the rest of slice 2.
TEST(Lowering, RingEpilogueGatherAndReduceScatter) {
  const Workload workload = small_workload("tpsp/mlp", 3, 2);
  EXPECT_EQ(plan_text("commfuse:order=ring:m=2:accumulate=epilogue", workload, 2), R"(
rank 2 of 3: 26 ops, 16 messages, 128 bytes of scratch
     0  compute  mlp  gemm H[4:5, :] = X[4:5, :] * U[0:6, :]^T
     1  compute  mlp  gemm H[5:6, :] = X[5:6, :] * U[0:6, :]^T
     2  gather   mlp  exchange #0 send X[4:5, :] to 0, #1 receive X[2:3, :] from 1
     3  compute  mlp  gemm H[2:3, :] = X[2:3, :] * U[0:6, :]^T  after #1
     4  compute  mlp  relu A[2:3, :] = f(H[2:3, :])
     5  compute  mlp  gemm partial[2:3, :] = A[2:3, :] * D[0:8, :]^T
     6  scatter  mlp  exchange #2 send partial[2:3, :] to 0, #3 receive mlp.landing[0:1, :] from 1  after 5
     7  gather   mlp  exchange #4 send X[5:6, :] to 0, #5 receive X[3:4, :] from 1
     8  compute  mlp  gemm H[3:4, :] = X[3:4, :] * U[0:6, :]^T  after #5
     9  compute  mlp  relu A[3:4, :] = f(H[3:4, :])
    10  compute  mlp  gemm partial[3:4, :] = A[3:4, :] * D[0:8, :]^T
    11  scatter  mlp  exchange #6 send partial[3:4, :] to 0, #7 receive mlp.landing[1:2, :] from 1  after 10
    12  gather   mlp  exchange #8 send X[2:3, :] to 0, #9 receive X[0:1, :] from 1  after #1
    13  compute  mlp  gemm H[0:1, :] = X[0:1, :] * U[0:6, :]^T  after #9
    14  compute  mlp  relu A[0:1, :] = f(H[0:1, :])
    15  compute  mlp  gemm partial[0:1, :] = A[0:1, :] * D[0:8, :]^T + mlp.landing[0:1, :]  after #3
    16  scatter  mlp  exchange #10 send partial[0:1, :] to 0, #11 receive mlp.landing[2:3, :] from 1  after 15
    17  gather   mlp  exchange #12 send X[3:4, :] to 0, #13 receive X[1:2, :] from 1  after #5
    18  compute  mlp  gemm H[1:2, :] = X[1:2, :] * U[0:6, :]^T  after #13
    19  compute  mlp  relu A[1:2, :] = f(H[1:2, :])
    20  compute  mlp  gemm partial[1:2, :] = A[1:2, :] * D[0:8, :]^T + mlp.landing[1:2, :]  after #7
    21  scatter  mlp  exchange #14 send partial[1:2, :] to 0, #15 receive mlp.landing[3:4, :] from 1  after 20
    22  compute  mlp  relu A[4:5, :] = f(H[4:5, :])
    23  compute  mlp  gemm result[0:1, :] = A[4:5, :] * D[0:8, :]^T + mlp.landing[2:3, :]  after #11
    24  compute  mlp  relu A[5:6, :] = f(H[5:6, :])
    25  compute  mlp  gemm result[1:2, :] = A[5:6, :] * D[0:8, :]^T + mlp.landing[3:4, :]  after #15
)");
}

TEST(Lowering, RingAdd) {
  const Workload workload = small_workload("tpsp/gemm_rs", 3, 2);
  EXPECT_EQ(plan_text("commfuse:order=ring:m=1:accumulate=add", workload, 0), R"(
rank 0 of 3: 7 ops, 4 messages, 128 bytes of scratch
     0  compute  gemm_rs  gemm partial[4:6, :] = A[4:6, :] * D[0:8, :]^T
     1  scatter  gemm_rs  exchange #0 send partial[4:6, :] to 1, #1 receive gemm_rs.landing[0:2, :] from 2  after 0
     2  compute  gemm_rs  gemm partial[2:4, :] = A[2:4, :] * D[0:8, :]^T
     3  compute  gemm_rs  accumulate partial[2:4, :] = partial[2:4, :] + gemm_rs.landing[0:2, :]  after #1
     4  scatter  gemm_rs  exchange #2 send partial[2:4, :] to 1, #3 receive gemm_rs.landing[2:4, :] from 2  after 3
     5  compute  gemm_rs  gemm result[0:2, :] = A[0:2, :] * D[0:8, :]^T
     6  compute  gemm_rs  accumulate result[0:2, :] = result[0:2, :] + gemm_rs.landing[2:4, :]  after #3
)");
}

// Rank 1 of 3 sends slice 0 to 0 and slice 2 to 2; both others send their part of slice 1.
TEST(Lowering, DirectOnce) {
  const Workload workload = small_workload("tpsp/gemm_rs", 3, 2);
  EXPECT_EQ(plan_text("commfuse:order=direct:m=1:accumulate=once", workload, 1), R"(
rank 1 of 3: 6 ops, 4 messages, 128 bytes of scratch
     0  compute  gemm_rs  gemm partial[0:2, :] = A[0:2, :] * D[0:8, :]^T
     1  scatter  gemm_rs  exchange #0 send partial[0:2, :] to 0, #1 receive gemm_rs.landing[0:2, :] from 2  after 0
     2  compute  gemm_rs  gemm partial[4:6, :] = A[4:6, :] * D[0:8, :]^T
     3  scatter  gemm_rs  exchange #2 send partial[4:6, :] to 2, #3 receive gemm_rs.landing[2:4, :] from 0  after 2
     4  compute  gemm_rs  gemm result[0:2, :] = A[2:4, :] * D[0:8, :]^T
     5  compute  gemm_rs  accumulate result[0:2, :] = result[0:2, :] + gemm_rs.landing[0:2, :] x 2 every 2 rows  after #1, #3
)");
}

TEST(Lowering, DirectAdd) {
  const Workload workload = small_workload("tpsp/gemm_rs", 3, 2);
  EXPECT_EQ(plan_text("commfuse:order=direct:m=2:accumulate=add", workload, 0), R"(
rank 0 of 3: 14 ops, 8 messages, 128 bytes of scratch
     0  compute  gemm_rs  gemm partial[4:5, :] = A[4:5, :] * D[0:8, :]^T
     1  scatter  gemm_rs  exchange #0 send partial[4:5, :] to 2, #1 receive gemm_rs.landing[0:1, :] from 1  after 0
     2  compute  gemm_rs  gemm partial[5:6, :] = A[5:6, :] * D[0:8, :]^T
     3  scatter  gemm_rs  exchange #2 send partial[5:6, :] to 2, #3 receive gemm_rs.landing[1:2, :] from 1  after 2
     4  compute  gemm_rs  gemm partial[2:3, :] = A[2:3, :] * D[0:8, :]^T
     5  scatter  gemm_rs  exchange #4 send partial[2:3, :] to 1, #5 receive gemm_rs.landing[2:3, :] from 2  after 4
     6  compute  gemm_rs  gemm partial[3:4, :] = A[3:4, :] * D[0:8, :]^T
     7  scatter  gemm_rs  exchange #6 send partial[3:4, :] to 1, #7 receive gemm_rs.landing[3:4, :] from 2  after 6
     8  compute  gemm_rs  gemm result[0:1, :] = A[0:1, :] * D[0:8, :]^T
     9  compute  gemm_rs  accumulate result[0:1, :] = result[0:1, :] + gemm_rs.landing[0:1, :]  after #1
    10  compute  gemm_rs  accumulate result[0:1, :] = result[0:1, :] + gemm_rs.landing[2:3, :]  after #5
    11  compute  gemm_rs  gemm result[1:2, :] = A[1:2, :] * D[0:8, :]^T
    12  compute  gemm_rs  accumulate result[1:2, :] = result[1:2, :] + gemm_rs.landing[1:2, :]  after #3
    13  compute  gemm_rs  accumulate result[1:2, :] = result[1:2, :] + gemm_rs.landing[3:4, :]  after #7
)");
}

TEST(Lowering, DirectGather) {
  const Workload workload = small_workload("tpsp/ag_gemm", 3, 2);
  EXPECT_EQ(plan_text("commfuse:order=direct:m=1", workload, 0), R"(
rank 0 of 3: 5 ops, 4 messages, 0 bytes of scratch
     0  compute  ag_gemm  gemm H[0:2, :] = X[0:2, :] * U[0:6, :]^T
     1  gather   ag_gemm  exchange #0 send X[0:2, :] to 1, #1 receive X[4:6, :] from 2
     2  compute  ag_gemm  gemm H[4:6, :] = X[4:6, :] * U[0:6, :]^T  after #1
     3  gather   ag_gemm  exchange #2 send X[0:2, :] to 2, #3 receive X[2:4, :] from 1
     4  compute  ag_gemm  gemm H[2:4, :] = X[2:4, :] * U[0:6, :]^T  after #3
)");
}

// Everything on the compute lane, in place.
TEST(Lowering, Plain) {
  const Workload workload = small_workload("tpsp/mlp", 3, 2);
  EXPECT_EQ(plan_text("plain", workload, 2), R"(
rank 2 of 3: 5 ops, 0 messages, 0 bytes of scratch
     0  compute  mlp  all_gather X[0:6, :] <- X[4:6, :]
     1  compute  mlp  gemm H[0:6, :] = X[0:6, :] * U[0:6, :]^T
     2  compute  mlp  relu A[0:6, :] = f(H[0:6, :])
     3  compute  mlp  gemm partial[0:6, :] = A[0:6, :] * D[0:8, :]^T
     4  compute  mlp  reduce_scatter result[0:2, :] <- partial[0:6, :]
)");
}

TEST(Lowering, Bulk) {
  const Workload workload = small_workload("tpsp/mlp", 3, 2);
  EXPECT_EQ(plan_text("bulk", workload, 2), R"(
rank 2 of 3: 5 ops, 0 messages, 0 bytes of scratch
     0  gather   mlp  all_gather X[0:6, :] <- X[4:6, :]
     1  compute  mlp  gemm H[0:6, :] = X[0:6, :] * U[0:6, :]^T  after 0
     2  compute  mlp  relu A[0:6, :] = f(H[0:6, :])
     3  compute  mlp  gemm partial[0:6, :] = A[0:6, :] * D[0:8, :]^T
     4  scatter  mlp  reduce_scatter result[0:2, :] <- partial[0:6, :]  after 3
)");
}

// all-gather 1 is issued before part 0 is computed; reduce-scatter 0 runs under part 1.
TEST(Lowering, SlicedTokens) {
  const Workload workload = small_workload("tpsp/mlp", 3, 4);
  EXPECT_EQ(plan_text("sliced:n=2:axis=tokens", workload, 1), R"(
rank 1 of 3: 12 ops, 0 messages, 768 bytes of scratch
     0  gather   mlp  all_gather mlp.gathered[0:6, :] <- X[4:6, :]
     1  gather   mlp  all_gather mlp.gathered[6:12, :] <- X[6:8, :]
     2  compute  mlp  copy X[0:2, :] x 3 every 4 rows = mlp.gathered[0:2, :] x 3 every 2 rows  after 0
     3  compute  mlp  gemm H[0:2, :] x 3 every 4 rows = X[0:2, :] x 3 every 4 rows * U[0:6, :]^T
     4  compute  mlp  relu A[0:2, :] x 3 every 4 rows = f(H[0:2, :] x 3 every 4 rows)
     5  compute  mlp  gemm mlp.partials[0:2, :] x 3 every 2 rows = A[0:2, :] x 3 every 4 rows * D[0:8, :]^T
     6  scatter  mlp  reduce_scatter result[0:2, :] <- mlp.partials[0:6, :]  after 5
     7  compute  mlp  copy X[2:4, :] x 3 every 4 rows = mlp.gathered[6:8, :] x 3 every 2 rows  after 1
     8  compute  mlp  gemm H[2:4, :] x 3 every 4 rows = X[2:4, :] x 3 every 4 rows * U[0:6, :]^T
     9  compute  mlp  relu A[2:4, :] x 3 every 4 rows = f(H[2:4, :] x 3 every 4 rows)
    10  compute  mlp  gemm mlp.partials[6:8, :] x 3 every 2 rows = A[2:4, :] x 3 every 4 rows * D[0:8, :]^T
    11  scatter  mlp  reduce_scatter result[2:4, :] <- mlp.partials[6:12, :]  after 10
)");
}

// Copies into the strided result wait until the next part has been computed.
TEST(Lowering, SlicedFeatures) {
  const Workload workload = small_workload("tpsp/mlp", 3, 4);
  EXPECT_EQ(plan_text("sliced:n=2:axis=features", workload, 1), R"(
rank 1 of 3: 9 ops, 0 messages, 512 bytes of scratch
     0  gather   mlp  all_gather X[0:12, :] <- X[4:8, :]
     1  compute  mlp  gemm H[0:12, :] = X[0:12, :] * U[0:6, :]^T  after 0
     2  compute  mlp  relu A[0:12, :] = f(H[0:12, :])
     3  compute  mlp  gemm mlp.partials[0:12, :] = A[0:12, :] * D[0:4, :]^T
     4  scatter  mlp  reduce_scatter mlp.landed[0:4, :] <- mlp.partials[0:12, :]  after 3
     5  compute  mlp  gemm mlp.partials[12:24, :] = A[0:12, :] * D[4:8, :]^T
     6  compute  mlp  copy result[0:4, 0:4] = mlp.landed[0:4, :]  after 4
     7  scatter  mlp  reduce_scatter mlp.landed[4:8, :] <- mlp.partials[12:24, :]  after 5
     8  compute  mlp  copy result[0:4, 4:8] = mlp.landed[4:8, :]  after 7
)");
}

TEST(Lowering, ComputeOnly) {
  const Workload workload = small_workload("tpsp/mlp", 3, 2);
  EXPECT_EQ(plan_text("compute_only", workload, 1), R"(
rank 1 of 3: 3 ops, 0 messages, 0 bytes of scratch
     0  compute  mlp  gemm H[0:6, :] = X[0:6, :] * U[0:6, :]^T
     1  compute  mlp  relu A[0:6, :] = f(H[0:6, :])
     2  compute  mlp  gemm partial[0:6, :] = A[0:6, :] * D[0:8, :]^T
)");
}

TEST(Lowering, CommOnly) {
  const Workload workload = small_workload("tpsp/mlp", 3, 2);
  EXPECT_EQ(plan_text("comm_only", workload, 1), R"(
rank 1 of 3: 2 ops, 0 messages, 0 bytes of scratch
     0  compute  mlp  all_gather X[0:6, :] <- X[2:4, :]
     1  compute  mlp  reduce_scatter result[0:2, :] <- partial[0:6, :]
)");
}

// One rank has nothing to send: the last phase writes the result.
TEST(Lowering, OfOneRankNeitherSendsNorCopies) {
  const Workload workload = small_workload("tpsp/mlp", 1, 4);
  for (const std::string_view spec : every_implementation()) {
    const Plan plan = plans_of(spec, workload).front();
    EXPECT_TRUE(plan.messages.empty()) << spec;
    EXPECT_EQ(plan.scratch_bytes(), 0) << spec;
    if (spec == "comm_only") continue;
    for (const Op& op : plan.ops) {
      EXPECT_TRUE(std::holds_alternative<Gemm>(op.work) ||
                  std::holds_alternative<Elementwise>(op.work))
          << spec;
    }
  }
}

}  // namespace
}  // namespace commfuse
