// SPDX-License-Identifier: Apache-2.0
#include "suite/flops.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "suite/workload.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {
namespace {

Shape with_tokens(Shape shape, std::int32_t tokens) {
  shape.tokens = tokens;
  return shape;
}

Shape a_layer_of(std::string_view model, std::int32_t tokens) {
  Shape shape = with_tokens(preset(model), tokens);
  shape.layers = 1;
  return shape;
}

CountedFlops of_both_passes_per_token(const Shape& shape) {
  return layers_flops_per_token(shape, Pass::forward) +
         layers_flops_per_token(shape, Pass::backward);
}

// Weights of a layer: 4 x 12288^2 of projections and 2 x 12288 x 49152, together 12 x 12288^2
//   = 1,811,939,328; of 96 layers N = 173,946,175,488; 6 N = 1,043,677,052,928.
// Attention: 12 x 96 layers x 96 heads x 128 x 2048 tokens = 28,991,029,248 with all pairs;
//   half of it = 14,495,514,624; times 2049 / 2048 = 14,502,592,512.
TEST(Flops, OfGpt3ByHand) {
  const Shape shape = with_tokens(preset("gpt3-175b"), 2048);
  EXPECT_EQ(layer_weights(shape), 1'811'939'328);
  EXPECT_EQ(of_both_passes_per_token(shape),
            (CountedFlops{.exact = 1'043'677'052'928 + 14'502'592'512,
                          .palm = 1'043'677'052'928 + 28'991'029'248,
                          .megatron = 1'043'677'052'928 + 14'495'514'624}));
}

// Weights of a layer: 4096 x (4096 + 2 x 1024 + 4096) = 41,943,040 of projections and 3 x 4096 x
//   14336 = 176,160,768, together 218,103,808; of 32 layers N = 6,979,321,856; 6 N =
//   41,875,931,136.
// Attention: 12 x 32 layers x 32 heads x 128 x 8192 tokens = 12,884,901,888 with all pairs; half of
//   it = 6,442,450,944; times 8193 / 8192 = 6,443,237,376.
TEST(Flops, OfLlama3ByHand) {
  const Shape shape = with_tokens(preset("llama3-8b"), 8192);
  EXPECT_EQ(layer_weights(shape), 218'103'808);
  EXPECT_EQ(of_both_passes_per_token(shape),
            (CountedFlops{.exact = 41'875'931'136 + 6'443'237'376,
                          .palm = 41'875'931'136 + 12'884'901'888,
                          .megatron = 41'875'931'136 + 6'442'450'944}));
}

// 2 tokens, hidden 4, 2 heads of 3 and 1 kv head, ffn 5: projections multiply by 4 x 3 x (2 + 1 + 1
// + 2) = 72 weights, a gated MLP by 3 x 4 x 5 = 60. Attention: 4 x 3 x 2 heads = 24 a pair; 3 pairs
// under a causal mask, 4 in all.
TEST(Flops, OfTheSmallestLayerByParts) {
  Shape shape = parse_shape("hidden=4,heads=2,kv_heads=1,head_dim=3,ffn=5");
  shape.tokens = 2;
  const LayerFlops forward = layer_flops(shape, Pass::forward);
  EXPECT_EQ(forward.projections, (CountedFlops{2 * 2 * 72, 2 * 2 * 72, 2 * 2 * 72}));
  EXPECT_EQ(forward.attention, (CountedFlops{24 * 3, 24 * 4, 24 * 2}));
  EXPECT_EQ(forward.mlp, (CountedFlops{2 * 2 * 60, 2 * 2 * 60, 2 * 2 * 60}));
  EXPECT_EQ(forward.total().exact, 288 + 72 + 240);
  const LayerFlops backward = layer_flops(shape, Pass::backward);
  EXPECT_EQ(backward.projections, 2 * forward.projections);
  EXPECT_EQ(backward.attention, 2 * forward.attention);
  EXPECT_EQ(backward.mlp, 2 * forward.mlp);

  EXPECT_EQ(executed_layer_flops(shape, Pass::forward), 600);
  EXPECT_EQ(executed_layer_flops(shape, Pass::backward), 2 * 288 + 5 * 72 / 2 + 2 * 240);

  shape.causal = false;
  EXPECT_EQ(layer_flops(shape, Pass::forward).attention, (CountedFlops{24 * 4, 24 * 4, 24 * 2}));
  shape.activation = Activation::gelu;
  EXPECT_EQ(layer_flops(shape, Pass::forward).mlp.exact, 2 * 2 * 40);
}

/// 96 B s l h^2 (1 + s / 6h) of Narayanan et al. has a forward pass a second time, 1 of its 4
/// parts.
TEST(Flops, PalmCountsAsNarayananWithoutRecomputation) {
  constexpr std::int64_t s = 2048, h = 12288;
  const Shape shape = a_layer_of("gpt3-175b", s);
  EXPECT_EQ(layer_flops(shape, Pass::forward).total().palm +
                layer_flops(shape, Pass::backward).total().palm,
            72 * s * h * h + 12 * s * s * h);
}

TEST(Flops, OfAllLayersAreThoseOfOneTimesTheirNumber) {
  const Shape model = with_tokens(preset("llama3-70b"), 4096);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    EXPECT_EQ(4096 * layers_flops_per_token(model, pass), 80 * layer_flops(model, pass).total());
  }
}

Workload built(std::string_view selector, const Shape& shape, std::int32_t ranks) {
  const WorkloadEntry& entry = *find_workloads(selector).front();
  EXPECT_EQ(entry.unsupported(shape, ranks), "") << selector;
  return entry.build(shape, ranks);
}

std::int64_t of_all_ranks(std::initializer_list<std::string_view> selectors, const Shape& shape,
                          std::int32_t ranks) {
  std::int64_t sum = 0;
  for (const std::string_view selector : selectors) {
    sum += ranks * built(selector, shape, ranks).model_flops;
  }
  return sum;
}

TEST(Flops, AreThoseOfTheWorkloadsThatMakeUpALayer) {
  Shape full = a_layer_of("llama3-8b", 64);
  full.causal = false;
  for (const Shape& shape : {a_layer_of("llama3-8b", 64), full, a_layer_of("gpt3-175b", 32)}) {
    const LayerFlops layer = layer_flops(shape, Pass::forward);
    for (const std::int32_t ranks : {1, 2, 4, 8}) {
      SCOPED_TRACE(shape.model + " on " + std::to_string(ranks));
      EXPECT_EQ(of_all_ranks({"tpsp/qkv", "tpsp/attention", "tpsp/mlp"}, shape, ranks),
                layer.total().exact);
      EXPECT_EQ(of_all_ranks({"ulysses/block", "tpsp/mlp"}, shape, ranks), layer.total().exact);
      const LayerFlops backward = layer_flops(shape, Pass::backward);
      EXPECT_EQ(of_all_ranks({"tpsp/mlp:backward"}, shape, ranks), backward.mlp.exact);
      EXPECT_EQ(of_all_ranks({"tpsp/qkv:backward", "tpsp/attention:backward", "tpsp/mlp:backward"},
                             shape, ranks),
                backward.total().exact);
    }
  }
}

/// A layer put together from the stages of others, on `ranks` ranks.
Workload joined_layer(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("a layer", shape, ranks);
  for (const std::string_view selector : {"tpsp/qkv", "tpsp/attention", "tpsp/mlp"}) {
    for (Stage& stage : built(selector, shape, ranks).stages) builder.stage(std::move(stage));
  }
  builder.whole_layer(Pass::forward);
  return builder.take();
}

void expect_counts_of_a_layer(const Workload& workload) {
  SCOPED_TRACE(workload.name);
  ASSERT_TRUE(workload.layer);
  EXPECT_EQ(workload.ranks * workload.model_flops,
            layer_flops(workload.shape, *workload.layer).total().exact);
  EXPECT_EQ(workload.ranks * workload.hardware_flops,
            executed_layer_flops(workload.shape, *workload.layer));
}

TEST(Flops, OfWholeLayersAreThoseOfTheirStages) {
  const Shape shape = a_layer_of("llama3-8b", 64);
  expect_counts_of_a_layer(joined_layer(shape, 4));
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = entry.build(shape, 4);
    if (!workload.layer) continue;
    expect_counts_of_a_layer(workload);
    EXPECT_EQ(entry.pass, *workload.layer == Pass::forward ? "forward" : "backward");
  }
}

TEST(Flops, PartsOfALayerAreNone) {
  for (const char* part : {"tpsp/mlp", "tpsp/attention", "ulysses/block", "dp/zero2"}) {
    const Workload workload = built(part, a_layer_of("llama3-8b", 64), 4);
    EXPECT_FALSE(workload.layer) << part;
    EXPECT_EQ(workload.hardware_flops, workload.model_flops) << part;
  }
}

}  // namespace
}  // namespace commfuse
