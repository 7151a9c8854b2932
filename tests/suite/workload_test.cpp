// SPDX-License-Identifier: Apache-2.0
#include "suite/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "suite/error.h"
#include "tests/suite/moving_workload.h"

namespace commfuse {
namespace {

/// One layer of it, where layers count.
Shape llama3_8b(std::int32_t tokens) {
  Shape shape = preset("llama3-8b");
  shape.layers = 1;
  shape.tokens = tokens;
  return shape;
}

std::string reason(std::string_view name, const Shape& shape, std::int32_t ranks) {
  return find_workloads(name).front()->unsupported(shape, ranks);
}

Workload build(std::string_view name, const Shape& shape, std::int32_t ranks) {
  const WorkloadEntry& entry = *find_workloads(name).front();
  EXPECT_EQ(entry.unsupported(shape, ranks), "");
  return entry.build(shape, ranks);
}

std::vector<std::string> described(const Workload& workload, const std::vector<View>& views) {
  std::vector<std::string> texts;
  for (const View& view : views) texts.push_back(describe(view, workload.tensors[view.tensor]));
  return texts;
}

std::vector<std::string> described(const Workload& workload, const std::vector<Fill>& fills) {
  std::vector<View> views;
  for (const Fill& fill : fills) views.push_back(fill.view);
  return described(workload, views);
}

using Texts = std::vector<std::string>;

TEST(Workloads, HaveDistinctNamesAndBuildWhatTheyAreCalled) {
  std::set<std::string> names;
  for (const WorkloadEntry& entry : workloads()) {
    const std::string selector = selector_of(entry);
    EXPECT_TRUE(names.insert(selector).second) << selector;
    EXPECT_EQ(build(selector, llama3_8b(64), 4).name, entry.name);
    EXPECT_FALSE(entry.description.empty());
  }
}

TEST(FindWorkloads, TakesNamesAndGlobs) {
  EXPECT_EQ(find_workloads("tpsp/mlp").size(), 1);
  EXPECT_EQ(find_workloads("tpsp/mlp*").size(), 2);
  EXPECT_EQ(find_workloads("*gemm*").size(), 2);
  EXPECT_EQ(find_workloads("*/mlp_r?").size(), 1);
  EXPECT_EQ(find_workloads("*").size() + find_workloads("tpsp/*:backward").size() +
                find_workloads("ulysses/*:backward").size() +
                find_workloads("dp/zero3:backward").size(),
            workloads().size());
  for (const char* pattern : {"tpsp", "tpsp/mlp?", "", "?"}) {
    EXPECT_THROW(find_workloads(pattern), UsageError) << pattern;
  }
}

TEST(FindWorkloads, UnknownNamesListTheValid) {
  try {
    find_workloads("tpsp/moe");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "unknown workload 'tpsp/moe'; valid: tpsp/ag_gemm, tpsp/ag_gemm:backward, "
        "tpsp/gemm_rs, tpsp/gemm_rs:backward, tpsp/mlp, tpsp/mlp:backward, "
        "tpsp/mlp_rs, tpsp/attention, tpsp/attention:backward, tpsp/qkv, "
        "tpsp/qkv:backward, tpsp/layer, tpsp/layer:backward, ulysses/qkv, "
        "ulysses/qkv:backward, ulysses/attention, ulysses/attention:backward, "
        "ulysses/block, ulysses/block:backward, ulysses/layer, ulysses/layer:backward, dp/zero3, "
        "dp/zero3:backward, dp/zero2, dp/zero1, dp/ddp");
  }
}

TEST(Constraints, NameConditionAndValue) {
  for (const char* name : {"tpsp/ag_gemm", "tpsp/gemm_rs", "tpsp/mlp", "tpsp/mlp_rs"}) {
    EXPECT_EQ(reason(name, llama3_8b(9), 2), "needs tokens divisible by ranks (2), got 9");
    EXPECT_EQ(reason(name, llama3_8b(30), 5), "needs ffn divisible by ranks (5), got 14336");
    EXPECT_EQ(reason(name, llama3_8b(7), 7), "");
  }
  EXPECT_EQ(reason("tpsp/attention", llama3_8b(9), 2),
            "needs tokens divisible by ranks (2), got 9");
  EXPECT_EQ(reason("tpsp/attention", llama3_8b(12), 8),
            "needs tokens divisible by ranks (8), got 12");
  EXPECT_EQ(reason("tpsp/attention", llama3_8b(12), 4),
            "needs tokens divisible by 2 x ranks (2 x 4) under a causal mask, got 12");
  Shape full = llama3_8b(12);
  full.causal = false;
  EXPECT_EQ(reason("tpsp/attention", full, 4), "");
}

TEST(Constraints, QkvCutsWholeKvGroups) {
  EXPECT_EQ(reason("tpsp/qkv", llama3_8b(9), 2), "needs tokens divisible by ranks (2), got 9");
  EXPECT_EQ(reason("tpsp/qkv", llama3_8b(48), 3), "needs kv_heads divisible by ranks (3), got 8");
  EXPECT_EQ(reason("tpsp/qkv", llama3_8b(16), 8), "");
}

/// Tokens are one rank's own, so they need not divide.
TEST(Constraints, DataParallelismCutsRowsOfWeights) {
  for (const char* name : {"dp/zero3", "dp/zero3:backward", "dp/zero2", "dp/zero1", "dp/ddp"}) {
    EXPECT_EQ(reason(name, llama3_8b(9), 2), "");
    EXPECT_EQ(reason(name, llama3_8b(30), 5), "needs hidden divisible by ranks (5), got 4096");
    Shape cut = parse_shape("hidden=80,ffn=64");
    cut.tokens = 8;
    EXPECT_EQ(reason(name, cut, 5), "needs ffn divisible by ranks (5), got 64");
    EXPECT_EQ(reason(name, llama3_8b(1 << 29), 4),
              "needs tokens x ranks below 2^31, got 2.14748e+09");
    EXPECT_EQ(reason(name, llama3_8b(0), 2), "needs tokens, which the shape does not give");
    Shape shape = parse_shape("hidden=64");
    shape.tokens = 8;
    EXPECT_EQ(reason(name, shape, 1), "needs ffn, which the shape does not give");
    shape = parse_shape("hidden=1M,ffn=1M");
    shape.tokens = 1 << 18;
    EXPECT_EQ(reason(name, shape, 1), "");
    EXPECT_EQ(reason(name, shape, 4),
              "needs tokens x ranks x hidden x ffn x layers below 2^59, got 1.15292e+18");
    shape.layers = 4;
    EXPECT_EQ(reason(name, shape, 1),
              "needs tokens x ranks x hidden x ffn x layers below 2^59, got 1.15292e+18");
    shape.layers = 1 << 16;
    EXPECT_EQ(reason(name, shape, 1), "needs layers below 2^16, got 65536");
    shape = parse_shape("hidden=256M,ffn=16M");
    shape.tokens = 1;
    EXPECT_EQ(reason(name, shape, 1), "needs elements of all tensors below 2^52, got 9.0072e+16");
  }
}

TEST(ModelFlops, QkvCountsQueryKeyAndValueHeads) {
  const Workload workload = build("tpsp/qkv", llama3_8b(64), 4);
  EXPECT_EQ(workload.model_flops, std::int64_t{2} * 64 * 4096 * ((32 + 2 * 8) * 128 / 4));
  EXPECT_EQ(build("tpsp/qkv:backward", llama3_8b(64), 4).model_flops, 2 * workload.model_flops);
}

TEST(Constraints, HeadsAreCutAndKvHeadsCutOrReplicated) {
  Shape shape = parse_shape("hidden=56,ffn=64,heads=7");
  shape.tokens = 8;
  EXPECT_EQ(reason("tpsp/attention", shape, 4), "needs heads divisible by ranks (4), got 7");
  EXPECT_EQ(reason("tpsp/mlp", shape, 4), "");
  shape = parse_shape("hidden=96,ffn=64,heads=12,kv_heads=6");
  shape.tokens = 48;
  EXPECT_EQ(reason("tpsp/attention", shape, 3), "");
  EXPECT_EQ(reason("tpsp/attention", shape, 12), "");
  EXPECT_EQ(reason("tpsp/attention", shape, 4),
            "needs kv_heads divisible by ranks (4) or ranks divisible by kv_heads, got 6");
  EXPECT_EQ(reason("tpsp/attention:backward", shape, 3), "");
  EXPECT_EQ(reason("tpsp/attention:backward", shape, 12),
            "needs kv_heads divisible by ranks (12), got 6");
}

TEST(Constraints, OnlyDataParallelismHasSeveralLayers) {
  Shape shape = llama3_8b(16);
  shape.layers = 2;
  for (const WorkloadEntry& entry : workloads()) {
    const bool dp = entry.name.starts_with("dp/");
    EXPECT_EQ(entry.unsupported(shape, 2), dp ? "" : "runs one layer, got 2 (dp/* run several)")
        << entry.name;
  }
}

TEST(FindWorkloads, ANameMeansItsUsualPass) {
  const auto found = [](std::string_view pattern) {
    std::vector<std::string> selectors;
    for (const WorkloadEntry* entry : find_workloads(pattern)) {
      selectors.push_back(selector_of(*entry));
    }
    return selectors;
  };
  using Selectors = std::vector<std::string>;
  EXPECT_EQ(found("tpsp/ag_gemm"), Selectors{"tpsp/ag_gemm"});
  EXPECT_EQ(found("tpsp/ag_gemm:forward"), Selectors{"tpsp/ag_gemm"});
  EXPECT_EQ(found("tpsp/ag_gemm:backward"), Selectors{"tpsp/ag_gemm:backward"});
  EXPECT_EQ(found("tpsp/*gemm*:backward"),
            (Selectors{"tpsp/ag_gemm:backward", "tpsp/gemm_rs:backward"}));
  EXPECT_EQ(found("dp/zero2"), Selectors{"dp/zero2"});
  EXPECT_EQ(found("dp/zero2:backward"), Selectors{"dp/zero2"});
  EXPECT_THROW(found("dp/zero2:forward"), UsageError);
  for (const WorkloadEntry& entry : workloads()) {
    EXPECT_EQ(found(selector_of(entry)), Selectors{selector_of(entry)});
  }
}

TEST(Constraints, UlyssesCutsTokensAndHeads) {
  for (const char* name :
       {"ulysses/qkv", "ulysses/qkv:backward", "ulysses/attention", "ulysses/attention:backward",
        "ulysses/block", "ulysses/block:backward"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(reason(name, llama3_8b(16), 8), "");
    EXPECT_EQ(reason(name, llama3_8b(9), 2), "needs tokens divisible by ranks (2), got 9");
    EXPECT_EQ(reason(name, llama3_8b(12), 4),
              "needs tokens divisible by 2 x ranks (2 x 4) under a causal mask, got 12");
    EXPECT_EQ(reason(name, llama3_8b(32), 16), "needs kv_heads divisible by ranks (16), got 8");
    Shape shape = parse_shape("hidden=56,heads=7");
    shape.tokens = 8;
    EXPECT_EQ(reason(name, shape, 4), "needs heads divisible by ranks (4), got 7");
    shape = parse_shape("hidden=64,heads=1K,head_dim=1M");
    shape.tokens = 2;
    EXPECT_EQ(reason(name, shape, 1),
              "needs (heads + kv_heads) x head_dim below 2^31, got 2.14748e+09");
    shape = parse_shape("hidden=1M,heads=1");
    shape.tokens = 1 << 20;
    EXPECT_EQ(reason(name, shape, 1),
              "needs tokens x max(tokens, hidden) x (heads + kv_heads) x head_dim below 2^59, got "
              "2.30584e+18");
  }
}

/// The gradients of weights are on every rank.
TEST(Constraints, UlyssesCountsMoreTensorsBackward) {
  Shape shape = parse_shape("hidden=1M,heads=512,head_dim=1M");
  shape.tokens = 1;
  shape.causal = false;
  EXPECT_EQ(reason("ulysses/qkv", shape, 1), "");
  EXPECT_EQ(reason("ulysses/qkv:backward", shape, 1),
            "needs elements of all tensors below 2^52, got 4.50361e+15");
}

TEST(Constraints, UlyssesCountsTheMlpOfALayerBackward) {
  const std::string name = "ulysses/layer:backward";
  Shape shape = llama3_8b(16);
  EXPECT_EQ(reason(name, shape, 8), "");
  EXPECT_EQ(reason(name, llama3_8b(12), 4),
            "needs tokens divisible by 2 x ranks (2 x 4) under a causal mask, got 12");
  shape.ffn = 0;
  EXPECT_EQ(reason(name, shape, 8), "needs ffn, which the shape does not give");
  shape.ffn = 1 << 30;
  shape.hidden = 1 << 22;
  EXPECT_EQ(reason("ulysses/block:backward", shape, 1), "");
  EXPECT_EQ(reason(name, shape, 1), "needs elements of all tensors below 2^52, got 2.70218e+16");
  shape.hidden = 1 << 10;
  shape.causal = false;
  shape.tokens = 1 << 19;
  EXPECT_EQ(reason("ulysses/block:backward", shape, 1), "");
  EXPECT_EQ(reason(name, shape, 1),
            "needs tokens of a rank x hidden x 2 ffn below 2^59, got 1.15292e+18");
}

TEST(ModelFlops, UlyssesBlockIsFourProjectionsAndAttention) {
  Shape shape = llama3_8b(64);
  shape.causal = false;
  const std::int64_t projections = std::int64_t{2} * 16 * 4096 * (32 + 8 + 8 + 32) * 128;
  const std::int64_t attention = std::int64_t{4} * 64 * 64 * 8 * 128;
  EXPECT_EQ(build("ulysses/block", shape, 4).model_flops, projections + attention);
}

/// The gradient of the input and that of the weight are each as much as a projection; scores that
/// are computed again do not count.
TEST(ModelFlops, BackwardOfUlyssesIsTwiceForward) {
  const Shape shape = llama3_8b(64);
  for (const std::string name :
       {"ulysses/qkv", "ulysses/attention", "ulysses/block", "ulysses/layer"}) {
    EXPECT_EQ(build(name + ":backward", shape, 4).model_flops,
              2 * build(name, shape, 4).model_flops)
        << name;
  }
}

TEST(Constraints, MissingAndHugeSizes) {
  Shape shape = parse_shape("hidden=64");
  EXPECT_EQ(reason("tpsp/mlp", shape, 1), "needs tokens, which the shape does not give");
  shape.tokens = 8;
  EXPECT_EQ(reason("tpsp/mlp", shape, 1), "needs ffn, which the shape does not give");
  EXPECT_EQ(reason("tpsp/attention", shape, 1), "needs heads, which the shape does not give");
  shape = parse_shape("hidden=1M,ffn=1M,heads=1");
  shape.tokens = 1 << 20;
  EXPECT_EQ(reason("tpsp/mlp", shape, 1),
            "needs tokens x hidden x ffn below 2^59, got 1.15292e+18");
  EXPECT_EQ(reason("tpsp/attention", shape, 1),
            "needs tokens x max(tokens, hidden) x heads x head_dim below 2^59, got 1.15292e+18");
  EXPECT_EQ(reason("tpsp/qkv", shape, 1),
            "needs tokens x hidden x (heads + 2 kv_heads) x head_dim below 2^59, got 3.45876e+18");
  shape = parse_shape("hidden=64,heads=1K,head_dim=1M");
  shape.tokens = 1;
  EXPECT_EQ(reason("tpsp/qkv", shape, 1),
            "needs (heads + 2 kv_heads) x head_dim below 2^31, got 3.22123e+09");
}

/// What is added up over tensors stays small enough even where each of them could be counted.
TEST(Constraints, AllTensorsTogether) {
  Shape shape = parse_shape("hidden=256M,ffn=1,heads=1,head_dim=1");
  shape.tokens = 1 << 28;
  shape.causal = false;
  EXPECT_EQ(reason("tpsp/mlp", shape, 1),
            "needs elements of all tensors below 2^52, got 2.16173e+17");
  EXPECT_EQ(reason("tpsp/qkv", shape, 1),
            "needs elements of all tensors below 2^52, got 7.20576e+16");
  EXPECT_EQ(reason("tpsp/attention", shape, 1),
            "needs elements of all tensors below 2^52, got 1.44115e+17");
}

TEST(ModelFlops, CountOneRank) {
  const Shape shape = llama3_8b(8192);
  const std::int64_t gemm = std::int64_t{2} * 8192 * 4096 * 14336 / 4;
  EXPECT_EQ(build("tpsp/ag_gemm", shape, 4).model_flops, gemm);
  EXPECT_EQ(build("tpsp/gemm_rs", shape, 4).model_flops, gemm);
  EXPECT_EQ(build("tpsp/mlp", shape, 4).model_flops, 3 * gemm);
  EXPECT_EQ(build("tpsp/mlp_rs", shape, 4).model_flops, 3 * gemm);
  Shape layers = shape;
  for (const std::int32_t count : {1, 3}) {  // a weight is 4 gemms, forward and for its gradient
    layers.layers = count;
    EXPECT_EQ(build("dp/zero3", layers, 4).model_flops, 4 * 2 * count * gemm);
    EXPECT_EQ(build("dp/zero2", layers, 4).model_flops, 4 * (2 * count + 2 * count - 1) * gemm);
    EXPECT_EQ(build("dp/zero3:backward", layers, 4).model_flops,
              build("dp/zero2", layers, 4).model_flops);
  }
  const std::int64_t causal_pairs = std::int64_t{8192} * 8193 / 2;
  EXPECT_EQ(build("tpsp/attention", shape, 4).model_flops,
            8 * 4 * 128 * causal_pairs + std::int64_t{2} * 8192 * 4096 * 1024);
  Shape gelu = preset("gpt3-175b");
  gelu.layers = 1;
  gelu.tokens = 1024;
  EXPECT_EQ(build("tpsp/mlp", gelu, 8).model_flops, std::int64_t{4} * 1024 * 12288 * 49152 / 8);
}

TEST(Portions, OfTheMlp) {
  const Workload mlp = build("tpsp/mlp", llama3_8b(64), 4);
  EXPECT_EQ(described(mlp, required_outputs(mlp, Portion::schedule)), Texts{"result[0:16, :]"});
  EXPECT_EQ(described(mlp, required_outputs(mlp, Portion::compute_only)),
            Texts{"partial[0:64, :]"});
  EXPECT_EQ(described(mlp, required_outputs(mlp, Portion::comm_only)),
            (Texts{"X[0:64, :]", "result[0:16, :]"}));
  EXPECT_EQ(described(mlp, initial_data(mlp, 1, Portion::schedule)),
            (Texts{"X[16:32, :]", "U[0:3584, :]", "U[3584:7168, :]", "D[0:4096, :]"}));
  EXPECT_EQ(described(mlp, initial_data(mlp, 1, Portion::compute_only)),
            (Texts{"X[16:32, :]", "U[0:3584, :]", "U[3584:7168, :]", "D[0:4096, :]", "X[0:16, :]",
                   "X[32:48, :]", "X[48:64, :]"}));
  EXPECT_EQ(described(mlp, initial_data(mlp, 1, Portion::comm_only)),
            (Texts{"X[16:32, :]", "partial[0:64, :]"}));
}

TEST(Portions, OfEveryMovement) {
  const Workload filled = MovingWorkload::build(2, DType::f32, true);
  EXPECT_EQ(described(filled, required_outputs(filled, Portion::schedule)),
            (Texts{"received[0:4, :]", "sum[0:4, :]", "last[0:2, :]"}));
  EXPECT_EQ(described(filled, required_outputs(filled, Portion::compute_only)),
            (Texts{"last[0:2, :]", "send[0:4, :]", "partial[0:4, :]", "share[0:4, :]"}));
  EXPECT_EQ(described(filled, required_outputs(filled, Portion::comm_only)),
            (Texts{"received[0:4, :]", "scattered[0:2, :]", "G[0:4, :]", "sum[0:4, :]"}));
  EXPECT_EQ(described(filled, initial_data(filled, 1, Portion::comm_only)),
            (Texts{"G[2:4, :]", "send[0:4, :]", "partial[0:4, :]", "share[0:4, :]"}));
  EXPECT_EQ(described(filled, initial_data(filled, 1, Portion::compute_only)),
            (Texts{"X[0:4, :]", "W1[0:4, :]", "W2[0:2, :]", "W3[0:5, :]", "W4[0:3, :]", "G[2:4, :]",
                   "G[0:2, :]", "received[0:4, :]", "scattered[0:2, :]"}));
}

/// Nothing reads the sum, so nothing stands in for it.
TEST(Portions, StandInsWhereNoInputFillsAGather) {
  const Workload bare = MovingWorkload::build(2, DType::f32, false);
  EXPECT_EQ(described(bare, initial_data(bare, 1, Portion::comm_only)),
            (Texts{"send[0:4, :]", "partial[0:4, :]", "G[2:4, :]", "share[0:4, :]"}));
  const std::vector<Fill> fills = initial_data(bare, 1, Portion::compute_only);
  EXPECT_EQ(described(bare, fills),
            (Texts{"X[0:4, :]", "W1[0:4, :]", "W2[0:2, :]", "W3[0:5, :]", "W4[0:3, :]",
                   "received[0:4, :]", "scattered[0:2, :]", "G[0:2, :]", "G[2:4, :]"}));
  const Source source{1, DataMode::random};
  const auto row_of = [&](const Fill& fill, std::int32_t row) {
    std::vector<float> values(static_cast<std::size_t>(fill.view.cols));
    fill_row(fill, source, row, values);
    return values;
  };
  for (const std::int32_t owner : {0, 1}) {  // slice j as rank j holds it
    const Fill held = initial_data(bare, owner, Portion::comm_only)[2];
    EXPECT_EQ(row_of(fills[7 + static_cast<std::size_t>(owner)], 1), row_of(held, 1));
  }
  EXPECT_NE(row_of(fills[7], 1), row_of(fills[8], 1));
  EXPECT_NE(row_of(fills[5], 1),
            row_of(initial_data(bare, 0, Portion::compute_only)[5], 1));  // received
}

TEST(Portions, WithoutGatherOrReduction) {
  const Workload rs = build("tpsp/mlp_rs", llama3_8b(64), 4);
  EXPECT_EQ(described(rs, initial_data(rs, 1, Portion::comm_only)), Texts{"partial[0:64, :]"});
  EXPECT_EQ(described(rs, initial_data(rs, 1, Portion::schedule)).front(), "X[0:64, :]");
  const Workload ag = build("tpsp/ag_gemm", llama3_8b(64), 4);
  EXPECT_EQ(described(ag, required_outputs(ag, Portion::compute_only)), Texts{"H[0:64, :]"});
  EXPECT_EQ(described(ag, required_outputs(ag, Portion::comm_only)), Texts{"X[0:64, :]"});
}

/// What is sent was there: only what stands in for the received is new.
TEST(Portions, WhereInputsAreSent) {
  const Workload qkv = build("ulysses/qkv:backward", llama3_8b(64), 4);
  const Texts outputs{"dX[0:16, :]", "dWq[0:4096, :]", "dWk[0:1024, :]", "dWv[0:1024, :]"};
  EXPECT_EQ(described(qkv, required_outputs(qkv, Portion::schedule)), outputs);
  EXPECT_EQ(described(qkv, required_outputs(qkv, Portion::compute_only)), outputs);
  EXPECT_EQ(described(qkv, required_outputs(qkv, Portion::comm_only)),
            (Texts{"dQ[0:64, :]", "dK[0:64, :]", "dV[0:64, :]"}));
  EXPECT_EQ(described(qkv, initial_data(qkv, 1, Portion::comm_only)),
            (Texts{"dQ_sent[0:64, :]", "dK_sent[0:64, :]", "dV_sent[0:64, :]"}));
}

/// Sums of a narrow dtype are kept apart from what is sent.
TEST(Portions, OfGradientsThatAreSent) {
  Shape shape = llama3_8b(64);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    shape.dtype = dtype;
    const Workload block = build("ulysses/block:backward", shape, 4);
    EXPECT_EQ(described(block, required_outputs(block, Portion::schedule)),
              (Texts{"dWo[0:4096, :]", "dX[0:16, :]", "dWq[0:4096, :]", "dWk[0:1024, :]",
                     "dWv[0:1024, :]"}));
    EXPECT_EQ(described(block, required_outputs(block, Portion::compute_only)),
              (Texts{"dWo[0:4096, :]", "dX[0:16, :]", "dWq[0:4096, :]", "dWk[0:1024, :]",
                     "dWv[0:1024, :]", "dO_sent[0:64, :]", "dQ_sent[0:64, :]", "dK_sent[0:64, :]",
                     "dV_sent[0:64, :]"}));
    EXPECT_EQ(described(block, required_outputs(block, Portion::comm_only)),
              (Texts{"dO[0:64, :]", "dQ[0:64, :]", "dK[0:64, :]", "dV[0:64, :]"}));
  }
}

/// All but what is exchanged is of the own tokens: nothing stands in for dY or what reaches norms.
TEST(Portions, OfTheGradientsOfAUlyssesLayer) {
  const Workload layer = build("ulysses/layer:backward", llama3_8b(64), 4);
  Texts outputs{"dX[0:16, :]",        "dD[0:4096, :]",  "dU[0:28672, :]",
                "dgamma_mlp[0:1, :]", "dWo[0:4096, :]", "dWq[0:4096, :]",
                "dWk[0:1024, :]",     "dWv[0:1024, :]", "dgamma_attention[0:1, :]"};
  EXPECT_EQ(described(layer, required_outputs(layer, Portion::schedule)), outputs);
  for (const char* sent : {"dO_sent", "dQ_sent", "dK_sent", "dV_sent"}) {
    outputs.push_back(std::string(sent) + "[0:64, :]");
  }
  EXPECT_EQ(described(layer, required_outputs(layer, Portion::compute_only)), outputs);
  EXPECT_EQ(described(layer, required_outputs(layer, Portion::comm_only)),
            (Texts{"dO[0:64, :]", "dQ[0:64, :]", "dK[0:64, :]", "dV[0:64, :]"}));
  const std::size_t given = initial_data(layer, 1, Portion::schedule).size();
  Texts stand_ins = described(layer, initial_data(layer, 1, Portion::compute_only));
  stand_ins.erase(stand_ins.begin(), stand_ins.begin() + static_cast<std::ptrdiff_t>(given));
  EXPECT_EQ(stand_ins, (Texts{"dO[0:64, :]", "dQ[0:64, :]", "dK[0:64, :]", "dV[0:64, :]"}));
}

TEST(Portions, OfDataParallelism) {
  const Workload gather = build("dp/zero3", llama3_8b(64), 4);
  EXPECT_EQ(described(gather, initial_data(gather, 1, Portion::schedule)),
            (Texts{"X[0:64, :]", "W_up[3584:7168, :]", "W_down[1024:2048, :]"}));
  EXPECT_EQ(described(gather, required_outputs(gather, Portion::schedule)),
            Texts{"Y_down[0:64, :]"});
  EXPECT_EQ(described(gather, required_outputs(gather, Portion::comm_only)),
            (Texts{"W_up[0:14336, :]", "W_down[0:4096, :]"}));
  const Workload reduce = build("dp/zero2", llama3_8b(64), 4);
  EXPECT_EQ(described(reduce, initial_data(reduce, 1, Portion::schedule)),
            (Texts{"dY_down[0:64, :]", "X_up[0:64, :]", "X_down[0:64, :]", "W_down[0:4096, :]"}));
  EXPECT_EQ(described(reduce, required_outputs(reduce, Portion::schedule)),
            (Texts{"dW_down[0:1024, :]", "dW_up[0:3584, :]"}));
  EXPECT_EQ(described(reduce, required_outputs(reduce, Portion::compute_only)),
            (Texts{"partial_down[0:4096, :]", "partial_up[0:14336, :]"}));
}

/// One bucket for each weight, from the last to the first; the input of the first needs no
/// gradient.
TEST(DataParallelism, DdpKeepsAllGradientsEverywhere) {
  const Workload ddp = build("dp/ddp", llama3_8b(64), 4);
  EXPECT_EQ(described(ddp, required_outputs(ddp, Portion::schedule)),
            (Texts{"dW_down[0:4096, :]", "dW_up[0:14336, :]"}));
  EXPECT_EQ(described(ddp, required_outputs(ddp, Portion::compute_only)),
            (Texts{"partial_down[0:4096, :]", "partial_up[0:14336, :]"}));
  EXPECT_EQ(described(ddp, initial_data(ddp, 1, Portion::comm_only)),
            (Texts{"partial_down[0:4096, :]", "partial_up[0:14336, :]"}));
  EXPECT_EQ(ddp.model_flops, build("dp/zero2", llama3_8b(64), 4).model_flops);
}

TEST(DataParallelism, LayersFollowEachOther) {
  Shape shape = llama3_8b(8);
  shape.layers = 2;
  const auto stages_of = [&](std::string_view name) {
    Texts names;
    for (const Stage& stage : build(name, shape, 4).stages) names.push_back(stage.name);
    return names;
  };
  EXPECT_EQ(stages_of("dp/zero3"), (Texts{"up0", "down0", "up1", "down1"}));
  EXPECT_EQ(stages_of("dp/zero2"), (Texts{"dgrad_down1", "wgrad_down1", "dgrad_up1", "wgrad_up1",
                                          "dgrad_down0", "wgrad_down0", "wgrad_up0"}));
  // A weight's own gradient hides the gather of the weight.
  EXPECT_EQ(stages_of("dp/zero3:backward"),
            (Texts{"gather_down1", "wgrad_down1", "dgrad_down1", "gather_up1", "wgrad_up1",
                   "dgrad_up1", "gather_down0", "wgrad_down0", "dgrad_down0", "wgrad_up0"}));
}

/// Every step comes after the whole backward pass; the dtype has a copy of the fp32 weights.
TEST(DataParallelism, ZeroOneStepsSharesAndGathersWeights) {
  Shape shape = llama3_8b(8);
  const auto outputs_of = [](const Workload& workload) {
    return described(workload, required_outputs(workload, Portion::schedule));
  };
  const Workload workload = build("dp/zero1", shape, 4);
  Texts names;
  for (const Stage& stage : workload.stages) names.push_back(stage.name);
  EXPECT_EQ(names, (Texts{"dgrad_down", "wgrad_down", "wgrad_up", "step_down", "gather_down",
                          "step_up", "gather_up"}));
  EXPECT_EQ(outputs_of(workload),
            (Texts{"dW_down[0:1024, :]", "dW_up[0:3584, :]", "new_W_down[0:4096, :]",
                   "new_m_down[0:1024, :]", "new_v_down[0:1024, :]", "new_W_up[0:14336, :]",
                   "new_m_up[0:3584, :]", "new_v_up[0:3584, :]"}));
  shape.dtype = DType::bf16;
  const Workload narrow = build("dp/zero1", shape, 4);
  EXPECT_EQ(outputs_of(narrow)[3], "new_master_down[0:1024, :]");
  const auto step = narrow.stages[3].phases[0](tile_of(narrow.stages[3], 2), {});
  ASSERT_EQ(step.size(), 1U);
  EXPECT_EQ(misfit(step[0]), "");
  EXPECT_EQ(described(narrow, {std::get<Adam>(step[0]).copy.value()}),
            Texts{"new_W_down[2048:3072, :]"});
}

/// As many gradients in a bucket as it holds whole, and at least one.
TEST(DataParallelism, BucketsHoldGradientsOfSeveralLayers) {
  Shape shape = parse_shape("hidden=16,ffn=32,layers=3");
  shape.tokens = 8;
  shape.bucket = 2 * 16 * 32 * 4;
  const Workload workload = build("dp/zero2", shape, 4);
  Texts names;
  for (const Stage& stage : workload.stages) names.push_back(stage.name);
  EXPECT_EQ(names,
            (Texts{"dgrad_down2", "dgrad_up2", "dgrad_down1", "wgrad_down2_to_down1", "dgrad_up1",
                   "wgrad_up2_to_up1", "dgrad_down0", "wgrad_down0", "wgrad_up0"}));
  EXPECT_EQ(described(workload, required_outputs(workload, Portion::schedule)),
            (Texts{"dW_down2_to_down1[0:8, :]", "dW_up2_to_up1[0:16, :]", "dW_down0[0:4, :]",
                   "dW_up0[0:8, :]"}));
  EXPECT_EQ(flops(workload.stages[3]), 2 * flops(workload.stages[7]));
  for (const std::int32_t bytes : {1, 2 * 16 * 32 * 4 - 1}) {
    shape.bucket = bytes;
    EXPECT_EQ(build("dp/zero2", shape, 4).outputs.size(), 6U) << bytes;
  }
  shape.dtype = shape.gradient = DType::bf16;  // takes half of the room
  shape.bucket = 3 * 16 * 32 * 2;
  EXPECT_EQ(build("dp/zero2", shape, 4).outputs.size(), 2U);
}

TEST(GradientDtype, IsFp32OrThatOfTheShape) {
  const auto gradients_of = [](const Shape& shape) {
    const Workload workload = build("dp/ddp", shape, 2);
    return workload.tensors[workload.outputs[0].tensor].dtype;
  };
  Shape shape = llama3_8b(16);
  shape.dtype = DType::bf16;
  EXPECT_EQ(gradients_of(shape), DType::f32);
  const auto why_not = [&](std::string_view name) {
    return unsupported(*find_workloads(name).front(), shape, 2);
  };
  shape.gradient = DType::bf16;
  EXPECT_EQ(why_not("dp/ddp"), "");
  EXPECT_EQ(gradients_of(shape), DType::bf16);
  EXPECT_EQ(why_not("tpsp/mlp"), "");  // makes none
  EXPECT_EQ(why_not("tpsp/mlp:backward"),
            "adds tiles up in its gradients, so needs them in fp32, got bf16");
  shape.gradient = DType::f16;
  EXPECT_EQ(why_not("dp/ddp"), "needs gradients in fp32 or bf16, as its dtype is bf16, got fp16");
  EXPECT_EQ(why_not("dp/zero3"), "");
  shape.dtype = DType::f32;
  EXPECT_EQ(why_not("dp/ddp"), "needs gradients in fp32, as its dtype is fp32, got fp16");
}

TEST(DataParallelism, RanksHaveTokensOfTheirOwn) {
  for (const char* name : {"dp/zero3", "dp/zero2", "dp/ddp"}) {
    const Workload workload = build(name, llama3_8b(8), 4);
    for (const Fill& fill : workload.inputs(0)) {
      for (const Fill& other : workload.inputs(3)) {
        if (other.view.tensor != fill.view.tensor) continue;
        std::vector<float> values(static_cast<std::size_t>(fill.view.cols));
        std::vector<float> others = values;
        const Source source{1, DataMode::random};
        fill_row(fill, source, 2, values);
        fill_row(other, source, 2, others);
        const auto& weights = workload.weights;  // which all ranks have alike
        const bool weight =
            std::find(weights.begin(), weights.end(), fill.view.tensor) != weights.end();
        EXPECT_EQ(values == others, weight) << name;
      }
    }
  }
}

TEST(Portions, StandInDataDiffersByRank) {
  const Workload mlp = build("tpsp/mlp", llama3_8b(64), 4);
  const TensorId partial = mlp.stages[0].reduce_scatter->partial;
  std::vector<float> rows[2] = {std::vector<float>(4096), std::vector<float>(4096)};
  for (std::int32_t rank : {0, 1}) fill_row(stand_in_data(mlp, partial, rank), {}, 3, rows[rank]);
  EXPECT_NE(rows[0], rows[1]);
}

TEST(Attention, RanksShareKvHeadsWhereThereAreTooFew) {
  const Workload attention = build("tpsp/attention", llama3_8b(64), 16);
  EXPECT_EQ(attention.tensors[1].cols, 128);  // one of 8 kv heads
  EXPECT_EQ(attention.stages[0].axis.unit, 2);
  for (std::int32_t rank = 0; rank < 16; ++rank) {
    const std::vector<Fill> fills = attention.inputs(rank);
    EXPECT_EQ(fills[0].col, rank * 2 * 128);
    EXPECT_EQ(fills[1].col, rank / 2 * 128);
    EXPECT_EQ(fills[2].col, rank / 2 * 128);
  }
}

bool is_gathered(const Workload& workload, TensorId id) {
  return std::ranges::any_of(workload.stages, [id](const Stage& stage) {
    return stage.gather && stage.gather->buffer == id;
  });
}

/// A gather buffer whose own slice a stage computes: there is nothing of it beforehand.
TEST(Portions, OfTheLayer) {
  const Workload layer = build("tpsp/layer", llama3_8b(64), 4);
  EXPECT_EQ(described(layer, required_outputs(layer, Portion::schedule)), Texts{"Z[0:16, :]"});
  EXPECT_EQ(described(layer, required_outputs(layer, Portion::compute_only)),
            (Texts{"Z[0:16, :]", "attention_partial[0:64, :]", "mlp_partial[0:64, :]"}));
  EXPECT_EQ(
      described(layer, required_outputs(layer, Portion::comm_only)),
      (Texts{"Xn[0:64, :]", "attention_result[0:16, :]", "Yn[0:64, :]", "mlp_result[0:16, :]"}));
  const Texts inputs = described(layer, initial_data(layer, 1, Portion::schedule));
  EXPECT_EQ(inputs, (Texts{"gamma_attention[0:1, :]", "Wqkv[0:1024, :]", "Wqkv[1024:1280, :]",
                           "Wqkv[1280:1536, :]", "Wo[0:4096, :]", "gamma_mlp[0:1, :]",
                           "U[3584:7168, :]", "D[0:4096, :]", "U[0:3584, :]", "X[0:16, :]"}));
  Texts alone = inputs;
  for (const char* text :
       {"Xn[0:16, :]", "Xn[32:48, :]", "Xn[48:64, :]", "attention_result[0:16, :]", "Yn[0:16, :]",
        "Yn[32:48, :]", "Yn[48:64, :]", "mlp_result[0:16, :]"}) {
    alone.emplace_back(text);
  }
  EXPECT_EQ(described(layer, initial_data(layer, 1, Portion::compute_only)), alone);
  EXPECT_EQ(described(layer, initial_data(layer, 1, Portion::comm_only)),
            (Texts{"Xn[16:32, :]", "attention_partial[0:64, :]", "Yn[16:32, :]",
                   "mlp_partial[0:64, :]"}));
}

TEST(Constraints, LayersCutEverythingOrAllButTheMlp) {
  EXPECT_EQ(reason("tpsp/layer", llama3_8b(16), 8), "");
  EXPECT_EQ(reason("tpsp/layer", llama3_8b(9), 2), "needs tokens divisible by ranks (2), got 9");
  EXPECT_EQ(reason("tpsp/layer", llama3_8b(12), 4),
            "needs tokens divisible by 2 x ranks (2 x 4) under a causal mask, got 12");
  EXPECT_EQ(reason("tpsp/layer", llama3_8b(32), 16),
            "needs kv_heads divisible by ranks (16), got 8");
  Shape shape = parse_shape("hidden=64,ffn=63,heads=4");
  shape.tokens = 16;
  EXPECT_EQ(reason("tpsp/layer", shape, 2), "needs ffn divisible by ranks (2), got 63");
  EXPECT_EQ(reason("ulysses/layer", shape, 2), "");
  EXPECT_EQ(reason("ulysses/layer", llama3_8b(9), 2), "needs tokens divisible by ranks (2), got 9");
  for (const char* name : {"tpsp/layer", "ulysses/layer"}) {
    SCOPED_TRACE(name);
    shape = parse_shape("hidden=64,heads=4");
    shape.tokens = 16;
    EXPECT_EQ(reason(name, shape, 1), "needs ffn, which the shape does not give");
  }
  shape = parse_shape("hidden=1M,ffn=1M,heads=1");
  shape.tokens = 1 << 18;
  EXPECT_EQ(reason("tpsp/layer", shape, 1),
            "needs tokens x max(tokens, hidden) x max(2 (heads + 2 kv_heads) x head_dim, 3 ffn) "
            "below 2^59, got 1.72938e+18");
}

TEST(ModelFlops, LayersAreProjectionsAttentionAndTheMlp) {
  Shape shape = llama3_8b(64);
  shape.causal = false;
  const std::int64_t projections = std::int64_t{2} * 16 * 4096 * (32 + 8 + 8 + 32) * 128;
  const std::int64_t attention = std::int64_t{4} * 64 * 64 * 8 * 128;
  const std::int64_t mlp = std::int64_t{3} * 2 * 16 * 4096 * 14336;
  for (const char* name : {"tpsp/layer", "ulysses/layer"}) {
    EXPECT_EQ(build(name, shape, 4).model_flops, projections + attention + mlp) << name;
    for (const bool causal : {false, true}) {
      shape.causal = causal;
      const Workload layer = build(name, shape, 4);
      EXPECT_EQ(layer.layer, Pass::forward);
      EXPECT_EQ(4 * layer.model_flops, layer_flops(shape, Pass::forward).total().exact) << name;
    }
    shape.causal = false;
  }
}

/// What is gathered arrives in every iteration; inputs that a pass saved are drawn like weights.
TEST(Weights, AreTheTensorsThatHoldWeights) {
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = build(entry.name, llama3_8b(64), 4);
    for (const Fill& fill : workload.inputs(0)) {
      const auto& weights = workload.weights;
      const bool listed =
          std::find(weights.begin(), weights.end(), fill.view.tensor) != weights.end();
      const bool drawn_as_weight =
          fill.content == Content::weight && !is_gathered(workload, fill.view.tensor);
      const bool saved_input = workload.tensors[fill.view.tensor].name.starts_with("X");
      EXPECT_EQ(listed, drawn_as_weight && !saved_input) << entry.name;
    }
  }
}

}  // namespace
}  // namespace commfuse
