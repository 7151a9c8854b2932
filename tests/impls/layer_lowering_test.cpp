// SPDX-License-Identifier: Apache-2.0
// The exact plans of a layer: stages that work on the own slice alone are cut into the schedule's
// parts, between what is reduced and what is gathered.
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

TEST(Lowering, LocalStagesAreCutWhereTheyDivide) {
  Stage stage{.name = "own", .axis = {.ranks = 3, .rows = 12, .unit = 2}, .phases = {}};
  EXPECT_EQ(local_parts(stage, 3), 1);
  stage.own_slice = true;
  EXPECT_EQ(local_parts(stage, 3), 3);
  EXPECT_EQ(local_parts(stage, 4), 1);
}

// Every part goes its way alone: what others sent of attention's part 0 is needed first by the
// residual of part 0; once that is normed it leaves, while part 1 is still computed.
TEST(Lowering, LayerUnderCommfuse) {
  const Workload workload = small_workload("tpsp/layer", 2, 2);
  EXPECT_EQ(plan_text("commfuse", workload, 1), R"(
rank 1 of 2: 40 ops, 16 messages, 128 bytes of scratch
     0  compute  norm  norm Xn[2:3, :] = norm(X[0:1, :]) gamma_attention[0:1, :]
     1  compute  norm  norm Xn[3:4, :] = norm(X[1:2, :]) gamma_attention[0:1, :]
     2  compute  qkv  gemm QKV[2:3, :] = Xn[2:3, :] * Wqkv[0:12, :]^T
     3  compute  qkv  gemm QKV[3:4, :] = Xn[3:4, :] * Wqkv[0:12, :]^T
     4  gather   qkv  exchange #0 send Xn[2:3, :] to 0, #1 receive Xn[0:1, :] from 0  after 0
     5  compute  qkv  gemm QKV[0:1, :] = Xn[0:1, :] * Wqkv[0:12, :]^T  after #1
     6  gather   qkv  exchange #2 send Xn[3:4, :] to 0, #3 receive Xn[1:2, :] from 0  after 1
     7  compute  qkv  gemm QKV[1:2, :] = Xn[1:2, :] * Wqkv[0:12, :]^T  after #3
     8  compute  attention  attention O[0:1, :] = softmax(QKV[0:1, 0:4] * QKV[0:4, 4:8]^T) * QKV[0:4, 8:12], heads 1/1
     9  compute  attention  gemm attention_partial[0:1, :] = O[0:1, :] * Wo[0:8, :]^T
    10  scatter  attention  exchange #4 send attention_partial[0:1, :] to 0, #5 receive attention.landing[0:1, :] from 0  after 9
    11  compute  attention  attention O[1:2, :] = softmax(QKV[1:2, 0:4] * QKV[0:4, 4:8]^T) * QKV[0:4, 8:12], heads 1/1
    12  compute  attention  gemm attention_partial[1:2, :] = O[1:2, :] * Wo[0:8, :]^T
    13  scatter  attention  exchange #6 send attention_partial[1:2, :] to 0, #7 receive attention.landing[1:2, :] from 0  after 12
    14  compute  attention  attention O[2:3, :] = softmax(QKV[2:3, 0:4] * QKV[0:4, 4:8]^T) * QKV[0:4, 8:12], heads 1/1
    15  compute  attention  gemm attention_result[0:1, :] = O[2:3, :] * Wo[0:8, :]^T + attention.landing[0:1, :]  after #5
    16  compute  add_norm  residual Y[0:1, :] = X[0:1, :] + attention_result[0:1, :]
    17  compute  add_norm  norm Yn[2:3, :] = norm(Y[0:1, :]) gamma_mlp[0:1, :]
    18  compute  attention  attention O[3:4, :] = softmax(QKV[3:4, 0:4] * QKV[0:4, 4:8]^T) * QKV[0:4, 8:12], heads 1/1
    19  compute  attention  gemm attention_result[1:2, :] = O[3:4, :] * Wo[0:8, :]^T + attention.landing[1:2, :]  after #7
    20  compute  add_norm  residual Y[1:2, :] = X[1:2, :] + attention_result[1:2, :]
    21  compute  add_norm  norm Yn[3:4, :] = norm(Y[1:2, :]) gamma_mlp[0:1, :]
    22  compute  mlp  gemm H[2:3, :] = Yn[2:3, :] * U[0:6, :]^T
    23  compute  mlp  gemm H[3:4, :] = Yn[3:4, :] * U[0:6, :]^T
    24  gather   mlp  exchange #8 send Yn[2:3, :] to 0, #9 receive Yn[0:1, :] from 0  after 17
    25  compute  mlp  gemm H[0:1, :] = Yn[0:1, :] * U[0:6, :]^T  after #9
    26  compute  mlp  relu A[0:1, :] = f(H[0:1, :])
    27  compute  mlp  gemm mlp_partial[0:1, :] = A[0:1, :] * D[0:8, :]^T
    28  scatter  mlp  exchange #10 send mlp_partial[0:1, :] to 0, #11 receive mlp.landing[0:1, :] from 0  after 27
    29  gather   mlp  exchange #12 send Yn[3:4, :] to 0, #13 receive Yn[1:2, :] from 0  after 21
    30  compute  mlp  gemm H[1:2, :] = Yn[1:2, :] * U[0:6, :]^T  after #13
    31  compute  mlp  relu A[1:2, :] = f(H[1:2, :])
    32  compute  mlp  gemm mlp_partial[1:2, :] = A[1:2, :] * D[0:8, :]^T
    33  scatter  mlp  exchange #14 send mlp_partial[1:2, :] to 0, #15 receive mlp.landing[1:2, :] from 0  after 32
    34  compute  mlp  relu A[2:3, :] = f(H[2:3, :])
    35  compute  mlp  gemm mlp_result[0:1, :] = A[2:3, :] * D[0:8, :]^T + mlp.landing[0:1, :]  after #11
    36  compute  add  residual Z[0:1, :] = Y[0:1, :] + mlp_result[0:1, :]
    37  compute  mlp  relu A[3:4, :] = f(H[3:4, :])
    38  compute  mlp  gemm mlp_result[1:2, :] = A[3:4, :] * D[0:8, :]^T + mlp.landing[1:2, :]  after #15
    39  compute  add  residual Z[1:2, :] = Y[1:2, :] + mlp_result[1:2, :]
)");
}

// The residual of part 0 waits for the reduce-scatter of part 0 alone, and the gather of part 0 for
// its norm alone.
TEST(Lowering, LayerSliced) {
  const Workload workload = small_workload("tpsp/layer", 2, 2);
  EXPECT_EQ(plan_text("sliced:n=2", workload, 1), R"(
rank 1 of 2: 32 ops, 0 messages, 512 bytes of scratch
     0  compute  norm  norm Xn[2:3, :] = norm(X[0:1, :]) gamma_attention[0:1, :]
     1  compute  norm  norm Xn[3:4, :] = norm(X[1:2, :]) gamma_attention[0:1, :]
     2  gather   qkv  all_gather qkv.gathered[0:2, :] <- Xn[2:3, :]  after 0
     3  gather   qkv  all_gather qkv.gathered[2:4, :] <- Xn[3:4, :]  after 1
     4  compute  qkv  copy Xn[0:1, :] x 2 every 2 rows = qkv.gathered[0:1, :] x 2 every 1 rows  after 2
     5  compute  qkv  gemm QKV[0:1, :] x 2 every 2 rows = Xn[0:1, :] x 2 every 2 rows * Wqkv[0:12, :]^T
     6  compute  qkv  copy Xn[1:2, :] x 2 every 2 rows = qkv.gathered[2:3, :] x 2 every 1 rows  after 3
     7  compute  qkv  gemm QKV[1:2, :] x 2 every 2 rows = Xn[1:2, :] x 2 every 2 rows * Wqkv[0:12, :]^T
     8  compute  attention  attention O[0:1, :] x 2 every 2 rows = softmax(QKV[0:1, 0:4] x 2 every 2 rows * QKV[0:4, 4:8]^T) * QKV[0:4, 8:12], heads 1/1
     9  compute  attention  gemm attention.partials[0:1, :] x 2 every 1 rows = O[0:1, :] x 2 every 2 rows * Wo[0:8, :]^T
    10  scatter  attention  reduce_scatter attention_result[0:1, :] <- attention.partials[0:2, :]  after 9
    11  compute  attention  attention O[1:2, :] x 2 every 2 rows = softmax(QKV[1:2, 0:4] x 2 every 2 rows * QKV[0:4, 4:8]^T) * QKV[0:4, 8:12], heads 1/1
    12  compute  attention  gemm attention.partials[2:3, :] x 2 every 1 rows = O[1:2, :] x 2 every 2 rows * Wo[0:8, :]^T
    13  scatter  attention  reduce_scatter attention_result[1:2, :] <- attention.partials[2:4, :]  after 12
    14  compute  add_norm  residual Y[0:1, :] = X[0:1, :] + attention_result[0:1, :]  after 10
    15  compute  add_norm  norm Yn[2:3, :] = norm(Y[0:1, :]) gamma_mlp[0:1, :]
    16  compute  add_norm  residual Y[1:2, :] = X[1:2, :] + attention_result[1:2, :]  after 13
    17  compute  add_norm  norm Yn[3:4, :] = norm(Y[1:2, :]) gamma_mlp[0:1, :]
    18  gather   mlp  all_gather mlp.gathered[0:2, :] <- Yn[2:3, :]  after 15
    19  gather   mlp  all_gather mlp.gathered[2:4, :] <- Yn[3:4, :]  after 17
    20  compute  mlp  copy Yn[0:1, :] x 2 every 2 rows = mlp.gathered[0:1, :] x 2 every 1 rows  after 18
    21  compute  mlp  gemm H[0:1, :] x 2 every 2 rows = Yn[0:1, :] x 2 every 2 rows * U[0:6, :]^T
    22  compute  mlp  relu A[0:1, :] x 2 every 2 rows = f(H[0:1, :] x 2 every 2 rows)
    23  compute  mlp  gemm mlp.partials[0:1, :] x 2 every 1 rows = A[0:1, :] x 2 every 2 rows * D[0:8, :]^T
    24  scatter  mlp  reduce_scatter mlp_result[0:1, :] <- mlp.partials[0:2, :]  after 23
    25  compute  mlp  copy Yn[1:2, :] x 2 every 2 rows = mlp.gathered[2:3, :] x 2 every 1 rows  after 19
    26  compute  mlp  gemm H[1:2, :] x 2 every 2 rows = Yn[1:2, :] x 2 every 2 rows * U[0:6, :]^T
    27  compute  mlp  relu A[1:2, :] x 2 every 2 rows = f(H[1:2, :] x 2 every 2 rows)
    28  compute  mlp  gemm mlp.partials[2:3, :] x 2 every 1 rows = A[1:2, :] x 2 every 2 rows * D[0:8, :]^T
    29  scatter  mlp  reduce_scatter mlp_result[1:2, :] <- mlp.partials[2:4, :]  after 28
    30  compute  add  residual Z[0:1, :] = Y[0:1, :] + mlp_result[0:1, :]  after 24
    31  compute  add  residual Z[1:2, :] = Y[1:2, :] + mlp_result[1:2, :]  after 29
)");
}

// Norms write into the own slice of what is gathered; attention reads columns of the projection.
TEST(Lowering, LayerPlain) {
  const Workload workload = small_workload("tpsp/layer", 2, 2);
  EXPECT_EQ(plan_text("plain", workload, 1), R"(
rank 1 of 2: 14 ops, 0 messages, 0 bytes of scratch
     0  compute  norm  norm Xn[2:4, :] = norm(X[0:2, :]) gamma_attention[0:1, :]
     1  compute  qkv  all_gather Xn[0:4, :] <- Xn[2:4, :]
     2  compute  qkv  gemm QKV[0:4, :] = Xn[0:4, :] * Wqkv[0:12, :]^T
     3  compute  attention  attention O[0:4, :] = softmax(QKV[0:4, 0:4] * QKV[0:4, 4:8]^T) * QKV[0:4, 8:12], heads 1/1
     4  compute  attention  gemm attention_partial[0:4, :] = O[0:4, :] * Wo[0:8, :]^T
     5  compute  attention  reduce_scatter attention_result[0:2, :] <- attention_partial[0:4, :]
     6  compute  add_norm  residual Y[0:2, :] = X[0:2, :] + attention_result[0:2, :]
     7  compute  add_norm  norm Yn[2:4, :] = norm(Y[0:2, :]) gamma_mlp[0:1, :]
     8  compute  mlp  all_gather Yn[0:4, :] <- Yn[2:4, :]
     9  compute  mlp  gemm H[0:4, :] = Yn[0:4, :] * U[0:6, :]^T
    10  compute  mlp  relu A[0:4, :] = f(H[0:4, :])
    11  compute  mlp  gemm mlp_partial[0:4, :] = A[0:4, :] * D[0:8, :]^T
    12  compute  mlp  reduce_scatter mlp_result[0:2, :] <- mlp_partial[0:4, :]
    13  compute  add  residual Z[0:2, :] = Y[0:2, :] + mlp_result[0:2, :]
)");
}

using Names = std::vector<std::string>;

/// The stages of what the lane does, one name for ops that follow each other.
Names stages_on(Lane lane, std::string_view implementation, const Workload& workload) {
  Names names;
  const Plan plan = plans_of(implementation, workload)[1];
  for (const Op& op : plan.ops) {
    const std::string& name = workload.stages[op.stage].name;
    if (op.lane == lane && (names.empty() || names.back() != name)) names.push_back(name);
  }
  return names;
}

// dD lies under the last of what is reduced to dYn, which the norm waits for part by part; dWo
// likewise under dXn.
TEST(Lowering, BackwardOfTheLayerPutsWeightGradientsUnderTransfers) {
  const Workload workload = small_workload("tpsp/layer:backward", 2, 2);
  EXPECT_EQ(
      stages_on(Lane::compute, "commfuse", workload),
      (Names{"mlp_dgrad", "wgrad_down", "mlp_dgrad", "norm_mlp", "mlp_dgrad", "norm_mlp",
             "gamma_mlp", "wgrad_up", "attention", "qkv_dgrad", "wgrad_out", "qkv_dgrad",
             "norm_attention", "qkv_dgrad", "norm_attention", "gamma_attention", "wgrad_qkv"}));
  EXPECT_EQ(stages_on(Lane::gather, "commfuse", workload),
            (Names{"mlp_dgrad", "wgrad_up", "attention", "wgrad_qkv"}));
  EXPECT_EQ(stages_on(Lane::scatter, "commfuse", workload),
            (Names{"mlp_dgrad", "gamma_mlp", "qkv_dgrad", "gamma_attention"}));
}

// dWo and dD lie under what is left of dO, dU under what is left of dQ and under dK and dV.
TEST(Lowering, BackwardOfAUlyssesLayerPutsWeightGradientsUnderExchanges) {
  const Workload workload = small_workload("ulysses/layer:backward", 2, 2);
  EXPECT_EQ(stages_on(Lane::compute, "commfuse", workload),
            (Names{"mlp_dgrad", "norm_mlp", "do", "dwo", "wgrad_down", "gamma_mlp", "attention",
                   "do", "attention", "wgrad_up", "dx_q", "dk", "dx_k", "dv", "dx_v",
                   "norm_attention", "gamma_attention"}));
  EXPECT_EQ(stages_on(Lane::scatter, "commfuse", workload), (Names{"do", "attention", "dk", "dv"}));
}

std::vector<Lane> lanes_of_all_reduces(std::string_view implementation, const Workload& workload) {
  std::vector<Lane> lanes;
  const Plan plan = plans_of(implementation, workload)[1];
  for (const Op& op : plan.ops) {
    const auto* collective = std::get_if<Collective>(&op.work);
    if (collective == nullptr || collective->kind != CollectiveKind::all_reduce) continue;
    EXPECT_EQ(collective->send.rows, 1);
    lanes.push_back(op.lane);
  }
  return lanes;
}

TEST(Lowering, WhatIsMadeOfTheOwnSliceIsReducedByOneCollective) {
  const Workload workload = small_workload("tpsp/layer:backward", 2, 4);
  using Lanes = std::vector<Lane>;
  for (const char* spec : {"commfuse", "commfuse:order=direct:m=4", "sliced:n=2", "bulk"}) {
    EXPECT_EQ(lanes_of_all_reduces(spec, workload), Lanes(2, Lane::scatter)) << spec;
  }
  EXPECT_EQ(lanes_of_all_reduces("plain", workload), Lanes(2, Lane::compute));
  const Workload alone = small_workload("tpsp/layer:backward", 1, 4);
  const Plan plan = plans_of("commfuse", alone)[0];
  for (const Op& op : plan.ops) {
    const auto* gradient = std::get_if<GammaGradient>(&op.work);
    if (gradient != nullptr) {
      EXPECT_EQ(alone.tensors[gradient->d.tensor].name.find("partial"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace commfuse
