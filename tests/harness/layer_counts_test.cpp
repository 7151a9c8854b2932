// SPDX-License-Identifier: Apache-2.0
#include "harness/layer_counts.h"

#include <gtest/gtest.h>

namespace commfuse {
namespace {

/// The backward pass of a layer of 4 tokens, on 2 ranks.
Workload layer_of(const Shape& shape) {
  Workload workload;
  workload.shape = shape;
  workload.shape.layers = 1;
  workload.shape.tokens = 4;
  workload.ranks = 2;
  workload.model_flops = 1000;
  workload.hardware_flops = 1250;
  workload.layer = Pass::backward;
  return workload;
}

TEST(LayerCounts, AreOfOneRankByEveryConvention) {
  const LayerCounts counts = layer_counts_of(layer_of(preset("llama3-8b"))).value();
  EXPECT_EQ(counts.tokens, 4);
  ASSERT_EQ(counts.shares.size(), 4U);
  // Twice forward, 2 x 218,103,808 weights a token; a pair of attention is 4 x 4096. Two ranks.
  constexpr double kGemms = 2.0 * 4 * 2 * 218'103'808 / 2;
  const CountedShare expected[] = {
      {"mfu", 1000, "needed"},
      {"hfu", 1250, "executed"},
      {"mfu_palm", kGemms + 2.0 * 4 * 4096 * 16 / 2, "PaLM"},
      {"mfu_megatron", kGemms + 2.0 * 4 * 4096 * 8 / 2, "Megatron-LM"}};
  for (std::size_t i = 0; i < counts.shares.size(); ++i) {
    EXPECT_EQ(counts.shares[i].metric, expected[i].metric);
    EXPECT_EQ(counts.shares[i].flops_per_rank, expected[i].flops_per_rank) << expected[i].metric;
    EXPECT_TRUE(counts.shares[i].convention.starts_with(expected[i].convention));
  }
}

TEST(LayerCounts, HaveTheLayersOfThePreset) {
  const LayerCounts counts = layer_counts_of(layer_of(preset("llama3-70b"))).value();
  EXPECT_EQ(counts.model, "llama3-70b");
  EXPECT_EQ(counts.model_layers, 80);
  const Shape custom = parse_shape("hidden=8,ffn=16,heads=2,layers=3");
  EXPECT_EQ(layer_counts_of(layer_of(custom)).value().model_layers, 0);
}

TEST(LayerCounts, OfPartsOfALayerThereAreNone) {
  Workload workload = layer_of(preset("llama3-8b"));
  workload.layer.reset();
  EXPECT_FALSE(layer_counts_of(workload));
}

}  // namespace
}  // namespace commfuse
