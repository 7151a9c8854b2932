// SPDX-License-Identifier: Apache-2.0
// The exact plans of the backward passes of ulysses.
#include <gtest/gtest.h>

#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

// What is there leaves at once, for 2, then 1, and what stays is copied when it is needed; dK and
// dV travel under the products of dQ.
TEST(Lowering, InputsAreExchangedBeforeTheyAreNeeded) {
  const Workload workload = small_workload("ulysses/qkv:backward", 3, 2);
  EXPECT_EQ(plan_text("commfuse:m=1", workload, 0), R"(
rank 0 of 3: 27 ops, 12 messages, 0 bytes of scratch
     0  scatter  dq  exchange #0 send dQ_sent[4:6, :] to 2, #1 receive dQ[2:4, :] from 1
     1  scatter  dq  exchange #2 send dQ_sent[2:4, :] to 1, #3 receive dQ[4:6, :] from 2
     2  scatter  dk  exchange #4 send dK_sent[4:6, :] to 2, #5 receive dK[2:4, :] from 1
     3  scatter  dk  exchange #6 send dK_sent[2:4, :] to 1, #7 receive dK[4:6, :] from 2
     4  scatter  dv  exchange #8 send dV_sent[4:6, :] to 2, #9 receive dV[2:4, :] from 1
     5  scatter  dv  exchange #10 send dV_sent[2:4, :] to 1, #11 receive dV[4:6, :] from 2
     6  compute  dq  copy dQ[0:2, :] = dQ_sent[0:2, :]
     7  compute  dx_q  gemm dX[0:2, :] = dQ[0:2, :] * Wq[0:4, :]
     8  compute  dx_q  gemm dWq[0:4, :] = dQ[0:2, :]^T * X[0:2, :]
     9  compute  dx_q  gemm dX[0:2, :] = dQ[2:4, :] * Wq[4:8, :] + dX[0:2, :]  after #1
    10  compute  dx_q  gemm dWq[4:8, :] = dQ[2:4, :]^T * X[0:2, :]
    11  compute  dx_q  gemm dX[0:2, :] = dQ[4:6, :] * Wq[8:12, :] + dX[0:2, :]  after #3
    12  compute  dx_q  gemm dWq[8:12, :] = dQ[4:6, :]^T * X[0:2, :]
    13  compute  dk  copy dK[0:2, :] = dK_sent[0:2, :]
    14  compute  dx_k  gemm dX[0:2, :] = dK[0:2, :] * Wk[0:4, :] + dX[0:2, :]
    15  compute  dx_k  gemm dWk[0:4, :] = dK[0:2, :]^T * X[0:2, :]
    16  compute  dx_k  gemm dX[0:2, :] = dK[2:4, :] * Wk[4:8, :] + dX[0:2, :]  after #5
    17  compute  dx_k  gemm dWk[4:8, :] = dK[2:4, :]^T * X[0:2, :]
    18  compute  dx_k  gemm dX[0:2, :] = dK[4:6, :] * Wk[8:12, :] + dX[0:2, :]  after #7
    19  compute  dx_k  gemm dWk[8:12, :] = dK[4:6, :]^T * X[0:2, :]
    20  compute  dv  copy dV[0:2, :] = dV_sent[0:2, :]
    21  compute  dx_v  gemm dX[0:2, :] = dV[0:2, :] * Wv[0:4, :] + dX[0:2, :]
    22  compute  dx_v  gemm dWv[0:4, :] = dV[0:2, :]^T * X[0:2, :]
    23  compute  dx_v  gemm dX[0:2, :] = dV[2:4, :] * Wv[4:8, :] + dX[0:2, :]  after #9
    24  compute  dx_v  gemm dWv[4:8, :] = dV[2:4, :]^T * X[0:2, :]
    25  compute  dx_v  gemm dX[0:2, :] = dV[4:6, :] * Wv[8:12, :] + dX[0:2, :]  after #11
    26  compute  dx_v  gemm dWv[8:12, :] = dV[4:6, :]^T * X[0:2, :]
)");
}

// A part of an input is packed while the one before it travels.
TEST(Lowering, SlicedInputsArePacked) {
  const Workload workload = small_workload("ulysses/qkv:backward", 2, 2);
  EXPECT_EQ(plan_text("sliced:n=2", workload, 1), R"(
rank 1 of 2: 36 ops, 0 messages, 384 bytes of scratch
     0  compute  dq  copy dq.partials[0:1, :] x 2 every 1 rows = dQ_sent[0:1, :] x 2 every 2 rows
     1  scatter  dq  all_to_all dq.landed[0:2, :] <- dq.partials[0:2, :]  after 0
     2  compute  dq  copy dq.partials[2:3, :] x 2 every 1 rows = dQ_sent[1:2, :] x 2 every 2 rows
     3  scatter  dq  all_to_all dq.landed[2:4, :] <- dq.partials[2:4, :]  after 2
     4  compute  dk  copy dk.partials[0:1, :] x 2 every 1 rows = dK_sent[0:1, :] x 2 every 2 rows
     5  scatter  dk  all_to_all dk.landed[0:2, :] <- dk.partials[0:2, :]  after 4
     6  compute  dk  copy dk.partials[2:3, :] x 2 every 1 rows = dK_sent[1:2, :] x 2 every 2 rows
     7  scatter  dk  all_to_all dk.landed[2:4, :] <- dk.partials[2:4, :]  after 6
     8  compute  dv  copy dv.partials[0:1, :] x 2 every 1 rows = dV_sent[0:1, :] x 2 every 2 rows
     9  scatter  dv  all_to_all dv.landed[0:2, :] <- dv.partials[0:2, :]  after 8
    10  compute  dv  copy dv.partials[2:3, :] x 2 every 1 rows = dV_sent[1:2, :] x 2 every 2 rows
    11  scatter  dv  all_to_all dv.landed[2:4, :] <- dv.partials[2:4, :]  after 10
    12  compute  dq  copy dQ[0:1, :] x 2 every 2 rows = dq.landed[0:1, :] x 2 every 1 rows  after 1
    13  compute  dx_q  gemm dX[0:1, :] = dQ[0:1, :] * Wq[0:4, :]
    14  compute  dx_q  gemm dX[0:1, :] = dQ[2:3, :] * Wq[4:8, :] + dX[0:1, :]
    15  compute  dx_q  gemm dWq[0:8, :] = dQ[0:1, :] x 2 every 2 rows^T * X[0:1, :]
    16  compute  dq  copy dQ[1:2, :] x 2 every 2 rows = dq.landed[2:3, :] x 2 every 1 rows  after 3
    17  compute  dx_q  gemm dX[1:2, :] = dQ[1:2, :] * Wq[0:4, :]
    18  compute  dx_q  gemm dX[1:2, :] = dQ[3:4, :] * Wq[4:8, :] + dX[1:2, :]
    19  compute  dx_q  gemm dWq[0:8, :] = dQ[1:2, :] x 2 every 2 rows^T * X[1:2, :] + dWq[0:8, :]
    20  compute  dk  copy dK[0:1, :] x 2 every 2 rows = dk.landed[0:1, :] x 2 every 1 rows  after 5
    21  compute  dx_k  gemm dX[0:1, :] = dK[0:1, :] * Wk[0:4, :] + dX[0:1, :]
    22  compute  dx_k  gemm dX[0:1, :] = dK[2:3, :] * Wk[4:8, :] + dX[0:1, :]
    23  compute  dx_k  gemm dWk[0:8, :] = dK[0:1, :] x 2 every 2 rows^T * X[0:1, :]
    24  compute  dk  copy dK[1:2, :] x 2 every 2 rows = dk.landed[2:3, :] x 2 every 1 rows  after 7
    25  compute  dx_k  gemm dX[1:2, :] = dK[1:2, :] * Wk[0:4, :] + dX[1:2, :]
    26  compute  dx_k  gemm dX[1:2, :] = dK[3:4, :] * Wk[4:8, :] + dX[1:2, :]
    27  compute  dx_k  gemm dWk[0:8, :] = dK[1:2, :] x 2 every 2 rows^T * X[1:2, :] + dWk[0:8, :]
    28  compute  dv  copy dV[0:1, :] x 2 every 2 rows = dv.landed[0:1, :] x 2 every 1 rows  after 9
    29  compute  dx_v  gemm dX[0:1, :] = dV[0:1, :] * Wv[0:4, :] + dX[0:1, :]
    30  compute  dx_v  gemm dX[0:1, :] = dV[2:3, :] * Wv[4:8, :] + dX[0:1, :]
    31  compute  dx_v  gemm dWv[0:8, :] = dV[0:1, :] x 2 every 2 rows^T * X[0:1, :]
    32  compute  dv  copy dV[1:2, :] x 2 every 2 rows = dv.landed[2:3, :] x 2 every 1 rows  after 11
    33  compute  dx_v  gemm dX[1:2, :] = dV[1:2, :] * Wv[0:4, :] + dX[1:2, :]
    34  compute  dx_v  gemm dX[1:2, :] = dV[3:4, :] * Wv[4:8, :] + dX[1:2, :]
    35  compute  dx_v  gemm dWv[0:8, :] = dV[1:2, :] x 2 every 2 rows^T * X[1:2, :] + dWv[0:8, :]
)");
}

TEST(Lowering, BulkExchangesInputsAsTheyLie) {
  const Workload workload = small_workload("ulysses/qkv:backward", 2, 2);
  EXPECT_EQ(plan_text("bulk", workload, 1), R"(
rank 1 of 2: 12 ops, 0 messages, 0 bytes of scratch
     0  scatter  dq  all_to_all dQ[0:4, :] <- dQ_sent[0:4, :]
     1  scatter  dk  all_to_all dK[0:4, :] <- dK_sent[0:4, :]
     2  scatter  dv  all_to_all dV[0:4, :] <- dV_sent[0:4, :]
     3  compute  dx_q  gemm dX[0:2, :] = dQ[0:2, :] * Wq[0:4, :]  after 0
     4  compute  dx_q  gemm dX[0:2, :] = dQ[2:4, :] * Wq[4:8, :] + dX[0:2, :]
     5  compute  dx_q  gemm dWq[0:8, :] = dQ[0:2, :] x 2 every 2 rows^T * X[0:2, :]
     6  compute  dx_k  gemm dX[0:2, :] = dK[0:2, :] * Wk[0:4, :] + dX[0:2, :]  after 1
     7  compute  dx_k  gemm dX[0:2, :] = dK[2:4, :] * Wk[4:8, :] + dX[0:2, :]
     8  compute  dx_k  gemm dWk[0:8, :] = dK[0:2, :] x 2 every 2 rows^T * X[0:2, :]
     9  compute  dx_v  gemm dX[0:2, :] = dV[0:2, :] * Wv[0:4, :] + dX[0:2, :]  after 2
    10  compute  dx_v  gemm dX[0:2, :] = dV[2:4, :] * Wv[4:8, :] + dX[0:2, :]
    11  compute  dx_v  gemm dWv[0:8, :] = dV[0:2, :] x 2 every 2 rows^T * X[0:2, :]
)");
}

// dO of the own tokens leaves as it is made, and dWo is computed while it travels; dQ leaves query
// slice by query slice, dK and dV when their sums are complete, and both travel under the products
// of dQ.
TEST(Lowering, GradientsOfTheBlockTravelUnderEachOther) {
  const Workload workload = small_workload("ulysses/block:backward", 3, 2);
  EXPECT_EQ(plan_text("commfuse:m=1", workload, 0), R"(
rank 0 of 3: 35 ops, 16 messages, 0 bytes of scratch
     0  compute  do  gemm dO_sent[4:6, :] = dY[0:2, :] * Wo[0:8, 8:12]
     1  scatter  do  exchange #0 send dO_sent[4:6, :] to 2, #1 receive dO[2:4, :] from 1  after 0
     2  compute  do  gemm dO_sent[2:4, :] = dY[0:2, :] * Wo[0:8, 4:8]
     3  scatter  do  exchange #2 send dO_sent[2:4, :] to 1, #3 receive dO[4:6, :] from 2  after 2
     4  compute  dwo  gemm dWo[0:8, 0:4] x 3 every 4 columns = dY[0:2, :]^T * O[0:2, :] x 3 every 2 rows
     5  compute  attention  attention gradient dQ_sent[2:4, :], dK_sent[0:6, :], dV_sent[0:6, :] = softmax'(Q[2:4, :] * K[0:6, :]^T) * V[0:6, :] * dO[2:4, :], heads 1/1  after #1
     6  scatter  attention  exchange #4 send dQ_sent[2:4, :] to 1, #5 receive dQ[4:6, :] from 2  after 5
     7  compute  attention  attention gradient dQ_sent[4:6, :], dK_sent[0:6, :], dV_sent[0:6, :] = softmax'(Q[4:6, :] * K[0:6, :]^T) * V[0:6, :] * dO[4:6, :], heads 1/1 + dK_sent[0:6, :], dV_sent[0:6, :]  after #3
     8  scatter  attention  exchange #6 send dQ_sent[4:6, :] to 2, #7 receive dQ[2:4, :] from 1  after 7
     9  compute  do  gemm dO[0:2, :] = dY[0:2, :] * Wo[0:8, 0:4]
    10  compute  attention  attention gradient dQ[0:2, :], dK_sent[0:6, :], dV_sent[0:6, :] = softmax'(Q[0:2, :] * K[0:6, :]^T) * V[0:6, :] * dO[0:2, :], heads 1/1 + dK_sent[0:6, :], dV_sent[0:6, :]
    11  scatter  dk  exchange #8 send dK_sent[4:6, :] to 2, #9 receive dK[2:4, :] from 1  after 10
    12  scatter  dk  exchange #10 send dK_sent[2:4, :] to 1, #11 receive dK[4:6, :] from 2
    13  scatter  dv  exchange #12 send dV_sent[4:6, :] to 2, #13 receive dV[2:4, :] from 1
    14  scatter  dv  exchange #14 send dV_sent[2:4, :] to 1, #15 receive dV[4:6, :] from 2
    15  compute  dx_q  gemm dX[0:2, :] = dQ[0:2, :] * Wq[0:4, :]
    16  compute  dx_q  gemm dWq[0:4, :] = dQ[0:2, :]^T * X[0:2, :]
    17  compute  dx_q  gemm dX[0:2, :] = dQ[4:6, :] * Wq[8:12, :] + dX[0:2, :]  after #5
    18  compute  dx_q  gemm dWq[8:12, :] = dQ[4:6, :]^T * X[0:2, :]
    19  compute  dx_q  gemm dX[0:2, :] = dQ[2:4, :] * Wq[4:8, :] + dX[0:2, :]  after #7
    20  compute  dx_q  gemm dWq[4:8, :] = dQ[2:4, :]^T * X[0:2, :]
    21  compute  dk  copy dK[0:2, :] = dK_sent[0:2, :]
    22  compute  dx_k  gemm dX[0:2, :] = dK[0:2, :] * Wk[0:4, :] + dX[0:2, :]
    23  compute  dx_k  gemm dWk[0:4, :] = dK[0:2, :]^T * X[0:2, :]
    24  compute  dx_k  gemm dX[0:2, :] = dK[2:4, :] * Wk[4:8, :] + dX[0:2, :]  after #9
    25  compute  dx_k  gemm dWk[4:8, :] = dK[2:4, :]^T * X[0:2, :]
    26  compute  dx_k  gemm dX[0:2, :] = dK[4:6, :] * Wk[8:12, :] + dX[0:2, :]  after #11
    27  compute  dx_k  gemm dWk[8:12, :] = dK[4:6, :]^T * X[0:2, :]
    28  compute  dv  copy dV[0:2, :] = dV_sent[0:2, :]
    29  compute  dx_v  gemm dX[0:2, :] = dV[0:2, :] * Wv[0:4, :] + dX[0:2, :]
    30  compute  dx_v  gemm dWv[0:4, :] = dV[0:2, :]^T * X[0:2, :]
    31  compute  dx_v  gemm dX[0:2, :] = dV[2:4, :] * Wv[4:8, :] + dX[0:2, :]  after #13
    32  compute  dx_v  gemm dWv[4:8, :] = dV[2:4, :]^T * X[0:2, :]
    33  compute  dx_v  gemm dX[0:2, :] = dV[4:6, :] * Wv[8:12, :] + dX[0:2, :]  after #15
    34  compute  dx_v  gemm dWv[8:12, :] = dV[4:6, :]^T * X[0:2, :]
)");
}

/// What is summed in fp32 is rounded slice by slice, as it leaves.
TEST(Lowering, NarrowSumsAreRoundedAsTheyLeave) {
  Shape shape;
  shape.hidden = 8;
  shape.heads = shape.kv_heads = 2;
  shape.head_dim = 4;
  shape.causal = false;
  shape.tokens = 4;
  shape.dtype = DType::bf16;
  const Workload workload = find_workloads("ulysses/attention:backward").front()->build(shape, 2);
  EXPECT_EQ(plan_text("commfuse:m=1", workload, 0), R"(
rank 0 of 2: 11 ops, 8 messages, 0 bytes of scratch
     0  scatter  do  exchange #0 send dO_sent[2:4, :] to 1, #1 receive dO[2:4, :] from 1
     1  compute  attention  attention gradient dQ_sent[2:4, :], dK_sum[0:4, :], dV_sum[0:4, :] = softmax'(Q[2:4, :] * K[0:4, :]^T) * V[0:4, :] * dO[2:4, :], heads 1/1  after #1
     2  scatter  attention  exchange #2 send dQ_sent[2:4, :] to 1, #3 receive dQ[2:4, :] from 1  after 1
     3  compute  do  copy dO[0:2, :] = dO_sent[0:2, :]
     4  compute  attention  attention gradient dQ[0:2, :], dK_sum[0:4, :], dV_sum[0:4, :] = softmax'(Q[0:2, :] * K[0:4, :]^T) * V[0:4, :] * dO[0:2, :], heads 1/1 + dK_sum[0:4, :], dV_sum[0:4, :]
     5  compute  dk  copy dK_sent[2:4, :] = dK_sum[2:4, :]
     6  scatter  dk  exchange #4 send dK_sent[2:4, :] to 1, #5 receive dK[2:4, :] from 1  after 5
     7  compute  dv  copy dV_sent[2:4, :] = dV_sum[2:4, :]
     8  scatter  dv  exchange #6 send dV_sent[2:4, :] to 1, #7 receive dV[2:4, :] from 1  after 7
     9  compute  dk  copy dK[0:2, :] = dK_sum[0:2, :]
    10  compute  dv  copy dV[0:2, :] = dV_sum[0:2, :]
)");
}

}  // namespace
}  // namespace commfuse
