// SPDX-License-Identifier: Apache-2.0
#include "suite/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "suite/compute.h"
#include "tests/suite/plain_run.h"
#include "tests/suite/rounded_to.h"
#include "tests/suite/small_cases.h"

namespace commfuse {
namespace {

std::vector<float> row_of(const Fill& fill, const Source& source, std::int32_t row) {
  std::vector<float> out(static_cast<std::size_t>(fill.view.cols), NAN);
  fill_row(fill, source, row, out);
  return out;
}

Fill global_of(Content content, std::int32_t rows, std::int32_t cols) {
  const bool coded = content == Content::query || content == Content::key;
  return {.view = {.rows = rows, .cols = cols},
          .content = content,
          .global = 3,
          .width = coded ? cols / 4 : cols,
          .tokens = coded ? rows : 0,
          .causal = coded};
}

constexpr Content kContents[] = {Content::activation, Content::weight, Content::query,
                                 Content::key};

TEST(FillRow, PiecesAreCutsOfTheGlobalTensor) {
  std::mt19937 random(11);
  for (const DataMode mode : {DataMode::exact, DataMode::random}) {
    for (const Content content : kContents) {
      const Fill global = global_of(content, 20, 200);
      for (int trial = 0; trial < 50; ++trial) {
        const auto row = static_cast<std::int32_t>(random() % 20);
        const auto col = static_cast<std::int32_t>(random() % 200);
        const auto cols =
            static_cast<std::int32_t>(1 + random() % (200U - static_cast<unsigned>(col)));
        const Fill piece = piece_of(global, {.rows = 20 - row, .cols = cols}, row, col);
        const std::vector<float> all = row_of(global, {5, mode}, 19);
        EXPECT_TRUE(std::equal(all.begin() + col, all.begin() + col + cols,
                               row_of(piece, {5, mode}, 19 - row).begin()));
      }
    }
  }
}

TEST(FillRow, TransposesHoldTheSameNumbers) {
  for (const DataMode mode : {DataMode::exact, DataMode::random}) {
    for (const Content content : kContents) {
      const Fill global = global_of(content, 20, 200);
      const Fill piece = piece_of(transpose_of(global), {.rows = 50, .cols = 7}, 130, 9);
      for (std::int32_t row = 0; row < 50; ++row) {
        const std::vector<float> values = row_of(piece, {5, mode}, row);
        for (std::int32_t col = 0; col < 7; ++col) {
          EXPECT_EQ(values[static_cast<std::size_t>(col)],
                    row_of(global, {5, mode}, 9 + col)[static_cast<std::size_t>(130 + row)]);
        }
      }
    }
  }
}

TEST(FillRow, DependsOnSeedTensorAndRow) {
  for (const DataMode mode : {DataMode::exact, DataMode::random}) {
    for (const Content content : {Content::activation, Content::weight, Content::query}) {
      const Fill fill = global_of(content, 64, 320);
      Fill other = fill;
      other.global = 4;
      EXPECT_NE(row_of(fill, {1, mode}, 5), row_of(fill, {2, mode}, 5));
      EXPECT_NE(row_of(fill, {1, mode}, 5), row_of(other, {1, mode}, 5));
      EXPECT_NE(row_of(fill, {1, mode}, 5), row_of(fill, {1, mode}, 7));
      EXPECT_EQ(row_of(fill, {1, mode}, 5), row_of(fill, {1, mode}, 5));
    }
  }
}

TEST(FillRow, ExactWeightsHaveOneHitPerChunk) {
  const Fill fill = global_of(Content::weight, 100, 50);
  for (std::int32_t row = 0; row < 100; ++row) {
    const std::vector<float> values = row_of(fill, {}, row);
    for (int chunk = 0; chunk < 16; ++chunk) {
      double size = 0;
      for (int col = chunk * 50 / 16; col < (chunk + 1) * 50 / 16; ++col) {
        size += std::abs(values[static_cast<std::size_t>(col)]);
      }
      EXPECT_EQ(size, 1);
    }
  }
}

/// Of weights that are applied one after the other.
TEST(FillRow, WeightsHaveAsManyHitsAndAsMuchBoostAsTheySay) {
  Fill fill{.view = {.rows = 8, .cols = 50}, .content = Content::weight, .width = 50};
  std::vector<float> row(50);
  for (const std::int32_t hits : {1, 2, 16}) {
    fill.hits = hits;
    for (std::int32_t i = 0; i < 8; ++i) {
      fill_row(fill, {1, DataMode::exact}, i, row);
      EXPECT_EQ(std::ranges::count_if(row, [](float value) { return std::abs(value) == 1; }), hits);
      EXPECT_EQ(std::ranges::count(row, 0.0F), 50 - hits);
    }
  }
  EXPECT_EQ(weight_bound(fill), 0.125);  // 1 / sqrt(50), rounded
  fill_row(fill, {1, DataMode::random}, 0, row);
  std::vector<float> boosted(50);
  fill.boost = -3;
  EXPECT_EQ(weight_bound(fill), 0.125 / 8);
  fill_row(fill, {1, DataMode::random}, 0, boosted);
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_EQ(boosted[i], row[i] / 8);
}

TEST(FillRow, NarrowExactWeightsAreDense) {
  for (const float value : row_of(global_of(Content::weight, 1, 15), {}, 0)) {
    EXPECT_EQ(std::abs(value), 1);
  }
}

TEST(FillRow, ExactActivationsAreSigns) {
  const Fill fill = global_of(Content::activation, 100, 1000);
  double sum = 0;
  for (std::int32_t row = 0; row < 100; ++row) {
    for (const float value : row_of(fill, {}, row)) {
      ASSERT_EQ(std::abs(value), 1);
      sum += value;
    }
  }
  EXPECT_LT(std::abs(sum), 5 * std::sqrt(1e5));  // five sigma
}

TEST(FillRow, RandomValuesAreUniformAndOfEveryDtype) {
  constexpr int kCount = 100 * 1024;
  for (const Content content : kContents) {
    const Fill fill = global_of(content, 100, 1024);
    const double scale = content == Content::weight ? 1.0 / 32 : 1.0;
    double sum = 0;
    double squares = 0;
    for (std::int32_t row = 0; row < 100; ++row) {
      for (const float value : row_of(fill, {1, DataMode::random}, row)) {
        ASSERT_LT(std::abs(value), scale);
        ASSERT_NE(value, 0);
        for (const DType dtype : kDTypes) ASSERT_EQ(rounded_to(dtype, value), value);
        sum += value / scale;
        squares += value / scale * value / scale;
      }
    }
    EXPECT_LT(std::abs(sum), 5 * std::sqrt(kCount / 3.0));
    EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.01);
  }
}

/// Whose smallest numbers are subnormal in fp16.
TEST(FillRow, RandomWeightsOfWideLayersAreOfEveryDtype) {
  double smallest = 1;
  for (const std::int32_t width : {1 << 14, 53'248, (1 << 18) + 1}) {
    for (const float value :
         row_of(global_of(Content::weight, 1, width), {1, DataMode::random}, 0)) {
      for (const DType dtype : kDTypes) ASSERT_EQ(rounded_to(dtype, value), value);
      smallest = std::min(smallest, std::abs(double{value}));
    }
  }
  EXPECT_LT(smallest, 0x1p-14);
}

TEST(FillRow, ExactQueriesAreOfEveryDtype) {
  for (const std::int32_t head_dim : {64, 256, 4096}) {
    Fill fill = global_of(Content::query, 64, head_dim);
    fill.width = head_dim;
    for (const float value : row_of(fill, {}, 0)) {
      for (const DType dtype : kDTypes) ASSERT_EQ(rounded_to(dtype, value), value);
    }
  }
}

/// The scores of every visible key, largest first.
std::vector<double> visible_scores(const Fill& q, const Fill& k, std::int32_t query_row,
                                   std::int32_t head) {
  const std::vector<float> query = row_of(q, {}, query_row);
  const std::int32_t d = q.width;
  std::vector<double> scores;
  for (std::int32_t t = 0; t < q.tokens; ++t) {
    if (q.causal && zigzag_position(t, q.tokens) > zigzag_position(query_row, q.tokens)) continue;
    const std::vector<float> key = row_of(k, {}, t);
    double sum = 0;
    for (std::int32_t c = head * d; c < (head + 1) * d; ++c) {
      sum += double{query[static_cast<std::size_t>(c)]} * key[static_cast<std::size_t>(c)];
    }
    scores.push_back(sum / std::sqrt(double{1} * d));
  }
  std::sort(scores.rbegin(), scores.rend());
  return scores;
}

TEST(FillRow, ExactQueriesFindOneVisibleKey) {
  for (const bool causal : {false, true}) {
    for (const std::int32_t tokens : {1, 2, 24, 64}) {
      if (causal && tokens % 2 != 0) continue;
      const std::int32_t head_dim = std::max(code_columns(tokens), 1);
      Fill q = global_of(Content::query, tokens, 4 * head_dim);
      q.causal = causal;
      Fill k = q;
      k.content = Content::key;
      k.global = 4;
      for (std::int32_t row = 0; row < tokens; ++row) {
        for (std::int32_t head = 0; head < 4; ++head) {
          const std::vector<double> scores = visible_scores(q, k, row, head);
          for (std::size_t i = 1; i < scores.size(); ++i) EXPECT_GE(scores[0] - scores[i], 104);
        }
      }
    }
  }
}

TEST(FillRow, ExpOfTheScoreGapVanishesInFp32) {
  EXPECT_EQ(std::exp(-104.0F), 0.0F);
  EXPECT_GT(std::exp(-103.0F), 0.0F);  // the gap is no larger than it must be
}

TEST(CodeColumns, HoldEveryPosition) {
  EXPECT_EQ(code_columns(1), 0);
  EXPECT_EQ(code_columns(2), 1);
  EXPECT_EQ(code_columns(24), 5);
  EXPECT_EQ(code_columns(32), 5);
  EXPECT_EQ(code_columns(33), 6);
}

class Exactness : public testing::TestWithParam<CaseGroup> {};

/// The proof in data.cpp, on numbers: no sum of absolute terms exceeds what bf16 holds exactly, and
/// no store rounds.
TEST_P(Exactness, HoldsInAbsoluteValues) {
  for (const SmallCase& small : exact_cases(GetParam())) {
    const Workload workload = small.build();
    for (const std::uint64_t seed : {1, 2, 3}) {
      PlainRun run(workload, {seed, DataMode::exact});
      run.run(Cut::whole);
      EXPECT_LE(run.largest_magnitude(), 256) << name_of(small);
      // One-hot attention alone passes on what it reads.
      const double least = small.workload == "ulysses/attention" ? 1 : 16;
      EXPECT_GE(run.largest_magnitude(), least) << name_of(small);
      EXPECT_EQ(run.changed_by_rounding(), 0) << name_of(small);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Exactness, testing::ValuesIn(case_groups()),
                         [](const auto& group) { return name_of(group.param); });

}  // namespace
}  // namespace commfuse
