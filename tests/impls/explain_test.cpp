// SPDX-License-Identifier: Apache-2.0
#include "impls/explain.h"

#include <gtest/gtest.h>

#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

TEST(Explain, DrawsLanesOpsAndDependencies) {
  const Workload workload = small_workload("tpsp/gemm_rs", 2, 1);
  EXPECT_EQ("\n" + explain_dot(plans_of("commfuse:m=1", workload)[1], workload, "commfuse:m=1"), R"(
digraph plan {
  label="tpsp/gemm_rs, commfuse:m=1, rank 1 of 2";
  node [shape=box];
  subgraph cluster_compute {
    label="compute";
    op0 [label="0: gemm partial[0:1, :]\n= A[0:1, :] * D[0:8, :]^T"];
    op2 [label="2: gemm result[0:1, :]\n= A[1:2, :] * D[0:8, :]^T\n+ gemm_rs.landing[0:1, :]"];
    op0 -> op2 [style=dotted];
  }
  subgraph cluster_scatter {
    label="scatter";
    op1 [label="1: exchange\n#0 send partial[0:1, :] to 0,\n#1 receive gemm_rs.landing[0:1, :] from 0"];
  }
  op0 -> op1;
  op1 -> op2 [label="#1"];
}
)");
}

TEST(Explain, SaysWhereAnOpIs) {
  const Workload workload = small_workload("tpsp/gemm_rs", 2, 1);
  const Plan plan = plans_of("commfuse:m=1", workload)[1];
  EXPECT_EQ(where(plan, 0),
            "rank 1 op 0 (compute lane: gemm partial[0:1, :] = A[0:1, :] * D[0:8, :]^T)");
}

TEST(Explain, SaysHowACollectiveIsAskedFor) {
  const Workload workload = small_workload("tpsp/mlp", 3, 2);
  const auto collectives = [&](std::string_view implementation) {
    const Plan plan = plans_of(implementation, workload)[2];
    return describe(plan, 0) + "; " + describe(plan, 4);
  };
  const std::string gather = "all_gather X[0:6, :] <- X[4:6, :]";
  const std::string scatter = "reduce_scatter result[0:2, :] <- partial[0:6, :]";
  EXPECT_EQ(collectives("plain"), gather + "; " + scatter);
  for (const std::string way : {"registered", "symmetric", "copy_engine"}) {
    EXPECT_EQ(collectives("plain:collective=" + way),
              gather + ", " + way + "; " + scatter + ", " + way);
  }
}

/// One of each kind of op; the plan itself makes no sense.
TEST(Explain, DescribesEveryKindOfOp) {
  Workload workload;
  workload.ranks = 2;
  for (const char* name : {"a", "b", "c"}) workload.tensors.push_back({name, 8, 4, DType::f32});
  const auto rows = [&](TensorId id, std::int32_t row, std::int32_t count) {
    return rows_of(id, workload.tensors[id], row, count);
  };
  PlanBuilder builder(workload, 0);
  builder.compute(Gemm{.d = rows(0, 0, 4),
                       .a = rows(1, 0, 4),
                       .b = rows(2, 0, 4),
                       .c = rows(0, 4, 4),
                       .transpose_a = true,
                       .transpose_b = false});
  builder.compute(Attention{.o = rows(0, 0, 2),
                            .q = rows(1, 0, 2),
                            .k = rows(1, 0, 8),
                            .v = rows(2, 0, 8),
                            .heads = 2,
                            .kv_heads = 1,
                            .head_dim = 2,
                            .mask = Mask::causal});
  AttentionGradient gradient{rows(0, 0, 2), rows(0, 2, 2), rows(0, 4, 2), rows(1, 0, 2),
                             rows(1, 2, 2), rows(2, 0, 2), rows(2, 2, 2)};
  gradient.heads = 2;
  builder.compute(gradient);
  gradient.adds = true;
  gradient.mask = Mask::causal;
  builder.compute(gradient);
  builder.compute(Elementwise{rows(0, 0, 2), rows(1, 0, 2), Activation::gelu});
  builder.compute(ActivationGradient{rows(0, 0, 2), rows(1, 0, 2), rows(2, 0, 2)});
  builder.compute(Norm{rows(0, 0, 2), rows(1, 0, 2), rows(2, 0, 1)});
  builder.compute(NormGradient{rows(0, 0, 2), rows(1, 0, 2), rows(1, 2, 2), rows(2, 0, 1)});
  builder.compute(GammaGradient{rows(0, 0, 1), rows(1, 0, 2), rows(2, 0, 2), true});
  builder.compute(Residual{rows(0, 0, 2), rows(1, 0, 2), rows(0, 0, 2)});
  builder.compute(Adam{rows(0, 0, 1), rows(0, 1, 1), rows(0, 2, 1), rows(1, 0, 1), rows(1, 1, 1),
                       rows(1, 2, 1), rows(2, 0, 1), rows(2, 1, 1)});
  View strips = rows(2, 0, 2);
  strips.strips = 3;
  strips.row_step = 3;
  builder.compute(Accumulate{rows(0, 0, 2), rows(1, 0, 2), strips});
  builder.compute(Copy{{.tensor = 0, .row = 1, .rows = 2, .col = 1, .cols = 2},
                       {.tensor = 1, .row = 1, .rows = 2, .col = 2, .cols = 2}});
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{true, 1, rows(0, 0, 1)},
                                            PlanBuilder::Transfer{false, 1, rows(1, 0, 1)}});
  builder.collective(Lane::scatter, {CollectiveKind::reduce_scatter, rows(0, 0, 8), rows(1, 0, 4)});
  const Plan plan = builder.take({}, {});
  const std::vector<std::string> expected{
      "gemm a[0:4, :] = b[0:4, :]^T * c[0:4, :] + a[4:8, :]",
      "attention a[0:2, :] = softmax(b[0:2, :] * b[0:8, :]^T) * c[0:8, :], heads 2/1, causal",
      "attention gradient a[0:2, :], a[2:4, :], a[4:6, :] = softmax'(b[2:4, :] * c[0:2, :]^T) * "
      "c[2:4, :] * b[0:2, :], heads 2/1",
      "attention gradient a[0:2, :], a[2:4, :], a[4:6, :] = softmax'(b[2:4, :] * c[0:2, :]^T) * "
      "c[2:4, :] * b[0:2, :], heads 2/1, causal + a[2:4, :], a[4:6, :]",
      "gelu a[0:2, :] = f(b[0:2, :])",
      "relu gradient a[0:2, :] = f'(c[0:2, :]) b[0:2, :]",
      "norm a[0:2, :] = norm(b[0:2, :]) c[0:1, :]",
      "norm gradient a[0:2, :] = norm'(b[2:4, :]) c[0:1, :] b[0:2, :]",
      "gamma gradient a[0:1, :] = rows of norm(c[0:2, :]) b[0:2, :] + a[0:1, :]",
      "residual a[0:2, :] = b[0:2, :] + a[0:2, :]",
      "adam a[0:1, :], a[1:2, :], a[2:3, :] = step of b[0:1, :], b[1:2, :], b[2:3, :] by "
      "c[0:1, :], copied to c[1:2, :]",
      "accumulate a[0:2, :] = b[0:2, :] + c[0:2, :] x 3 every 3 rows",
      "copy a[1:3, 1:3] = b[1:3, 2:4]",
      "exchange #0 send a[0:1, :] to 1, #1 receive b[0:1, :] from 1",
      "reduce_scatter b[0:4, :] <- a[0:8, :]",
  };
  ASSERT_EQ(plan.ops.size(), expected.size());
  for (OpId id = 0; id < expected.size(); ++id) EXPECT_EQ(describe(plan, id), expected[id]);
}

}  // namespace
}  // namespace commfuse
