// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle_chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "suite/workloads/dp_layers.h"

namespace commfuse {
namespace {

constexpr std::int32_t kTokens = 12;

struct Chain {
  Fill x;
  std::vector<Fill> weights;
};

/// hidden -> ffn -> hidden -> ...
Chain chain_of(std::size_t maps, std::int32_t hidden, std::int32_t ffn) {
  Chain chain{.x = dp_input(DpInput::dy, 0, Content::activation, kTokens, hidden), .weights = {}};
  for (std::size_t i = 0; i < maps; ++i) {
    const bool up = i % 2 == 0;
    chain.weights.push_back(
        dp_input(DpInput::wt, i, Content::weight, up ? ffn : hidden, up ? hidden : ffn));
  }
  chain.weights = dp_chained(std::move(chain.weights), 16);
  return chain;
}

/// Map by map, as linear() has it.
Rows composed(const Chain& chain, const Source& source, DType dtype) {
  std::vector<std::int32_t> tokens(kTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  Rows rows = input_rows(chain.x, {0, chain.x.view.cols}, tokens, source);
  for (const Fill& weight : chain.weights) {
    rows = linear(rows,
                  {.global = weight, .rows = {0, weight.view.rows}, .cols = {0, weight.view.cols}},
                  source, dtype);
  }
  return rows;
}

const std::vector<std::int32_t> kFeatures{5, 0, 31};

TEST(ChainColumns, EqualTheMapsOneAfterTheOther) {
  for (const DataMode mode : {DataMode::exact, DataMode::random}) {
    for (const std::size_t maps : {1, 2, 3, 5}) {
      const Chain chain = chain_of(maps, 32, 48);
      const Source source{3, mode};
      const Rows expected = composed(chain, source, DType::f32);
      const Rows got = chain_columns(chain.x, {2, 7}, chain.weights, kFeatures, source, DType::f32);
      ASSERT_EQ(got.count, 3);
      ASSERT_EQ(got.cols, 7);
      for (std::int32_t f = 0; f < got.count; ++f) {
        for (std::int32_t t = 0; t < got.cols; ++t) {
          const std::int32_t feature = kFeatures[static_cast<std::size_t>(f)];
          EXPECT_NEAR(got.value[got.at(f, t)], expected.value[expected.at(2 + t, feature)], 1e-12);
          if (mode == DataMode::exact) {
            EXPECT_EQ(got.error[got.at(f, t)], 0);
          }
        }
      }
    }
  }
}

/// Bounds that come from the sizes of the weights alone lie near those that know every number.
TEST(ChainColumns, BoundsAreLikeThoseOfTheMaps) {
  const Source source{3, DataMode::random};
  for (const DType dtype : kDTypes) {
    for (const std::size_t maps : {1, 2, 4}) {
      const Chain chain = chain_of(maps, 512, 1024);
      const Rows expected = composed(chain, source, dtype);
      const Rows got =
          chain_columns(chain.x, {0, kTokens}, chain.weights, kFeatures, source, dtype);
      double ours = 0;
      double theirs = 0;
      for (std::int32_t f = 0; f < got.count; ++f) {
        for (std::int32_t t = 0; t < got.cols; ++t) {
          ours += got.error[got.at(f, t)];
          theirs += expected.error[expected.at(t, kFeatures[static_cast<std::size_t>(f)])];
        }
      }
      EXPECT_GT(ours, 0.3 * theirs) << name_of(dtype) << ' ' << maps;
      EXPECT_LT(ours, 3 * theirs) << name_of(dtype) << ' ' << maps;
    }
  }
}

/// However many maps there are, random numbers neither grow nor vanish.
TEST(DpChained, KeepsNumbersTheSize) {
  for (const std::size_t maps : {1, 2, 7, 64}) {
    const Chain chain = chain_of(maps, 96, 160);
    const Rows y = composed(chain, {3, DataMode::random}, DType::f16);
    double squares = 0;
    for (const double value : y.value) squares += value * value;
    const double size = std::sqrt(squares / static_cast<double>(y.value.size()));
    EXPECT_GT(size, 0.2) << maps;
    EXPECT_LT(size, 2) << maps;
  }
}

TEST(DpChained, LimitsTheSumsOfExactData) {
  for (const auto& [maps, hits] : std::vector<std::pair<std::size_t, std::int32_t>>{
           {1, 16}, {2, 4}, {3, 2}, {4, 2}, {5, 1}, {63, 1}}) {
    for (const Fill& weight : chain_of(maps, 32, 48).weights) EXPECT_EQ(weight.hits, hits) << maps;
  }
}

}  // namespace
}  // namespace commfuse
