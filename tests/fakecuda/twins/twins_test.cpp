// SPDX-License-Identifier: Apache-2.0
// Twins by hand-made launches: their numbers, the ranges they declare, what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "harness/cuda/row_grid.h"
#include "harness/cuda/softmax_rows.h"
#include "suite/compute.h"
#include "tests/fakecuda/twins/elements.h"
#include "tests/fakecuda/twins/hand_launch.h"

namespace commfuse::fake {
namespace {

using testing::HasSubstr;

TEST(Twins, NamesAreDifferent) {
  std::vector<std::string_view> names;
  for (const TwinEntry& entry : twins()) names.push_back(entry.kernel);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(Twins, RangesAreRowsMergedWhereTheyTouch) {
  Counted source(100);
  Counted target(100);
  // two strips of 2 rows of 3 columns, rows 5 apart; packed rows in the target
  const DeviceView from = source.view(1, 2, 3, 5, 2, 20);
  const DeviceView to = target.view(10, 4, 3, 3);
  const Work work = launch("commfuse::copy_words<unsigned int>", row_grid(4, 3), to, from, 3);
  EXPECT_THAT(
      offsets(work.reads, source.values.data()),
      testing::ElementsAre(std::pair(1, 3), std::pair(6, 3), std::pair(21, 3), std::pair(26, 3)));
  EXPECT_THAT(offsets(work.writes, target.values.data()), testing::ElementsAre(std::pair(10, 12)));
}

TEST(Twins, CopyCutsRowsOfDifferentLengthsIntoRuns) {
  Counted source(100);
  Counted target(100);
  const Work work = launch("commfuse::copy_words<unsigned int>", row_grid(6, 2),
                           target.view(0, 3, 4, 7), source.view(0, 2, 6, 9), 2);
  work.run();
  std::vector<float> packed;
  for (const int row : {0, 7, 14}) {
    packed.insert(packed.end(), &target.values[row], &target.values[row] + 4);
  }
  EXPECT_THAT(packed, testing::ElementsAre(0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14));
}

TEST(Twins, GridThatLeavesRowsOutIsFound) {
  Counted source(4000);
  Counted target(4000);
  RowGrid shape = row_grid(500, 4);
  const DeviceView from = source.view(0, 500, 4, 4);
  const DeviceView to = target.view(0, 500, 4, 4);
  EXPECT_EQ(refusal("commfuse::copy_words<unsigned int>", shape, to, from, 4), "");
  --shape.grid.x;
  EXPECT_THAT(refusal("commfuse::copy_words<unsigned int>", shape, to, from, 4),
              HasSubstr("for 500 rows"));
  for (const std::string kernel : {"commfuse::apply_activation<float, 1>"}) {
    EXPECT_THAT(refusal(kernel, shape, to, from, Activation::relu), HasSubstr("for 500 rows"));
  }
  EXPECT_THAT(refusal("commfuse::sum_strips<float, 1>", shape, to, to, from),
              HasSubstr("for 500 rows"));
  EXPECT_THAT(refusal("commfuse::add_rows<float, 1>", shape, to, to, from),
              HasSubstr("for 500 rows"));
  EXPECT_THAT(refusal("commfuse::round_elements<__nv_bfloat16, 1>", shape, to, from),
              HasSubstr("for 500 rows"));
}

TEST(Twins, GridThatCannotBeLaunchedIsFound) {
  Counted values(16);
  const DeviceView view = values.view(0, 1, 4, 4);
  const auto words = [&](const RowGrid& shape) {
    return refusal("commfuse::copy_words<unsigned int>", shape, view, view, 4);
  };
  EXPECT_EQ(words({dim3(1), dim3(4)}), "");
  EXPECT_NE(words({dim3(1, 65536), dim3(4)}), "");
  EXPECT_NE(words({dim3(1), dim3(2048)}), "");
  EXPECT_NE(words({dim3(0), dim3(4)}), "");
}

TEST(Twins, VectorsThatDoNotFitAreFound) {
  Counted values(200);
  const DeviceView good = values.view(0, 3, 8, 12);
  const RowGrid shape = row_grid(3, 2);
  const auto relu = [&](const DeviceView& x) {
    return refusal("commfuse::apply_activation<float, 4>", shape, good, x, Activation::relu);
  };
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(values.values.data()) % 16, 0U);
  EXPECT_EQ(relu(good), "");
  EXPECT_THAT(relu(values.view(1, 3, 8, 12)), HasSubstr("no vectors of 4"));
  EXPECT_THAT(relu(values.view(0, 3, 8, 13)), HasSubstr("no vectors of 4"));
  EXPECT_THAT(relu(values.view(0, 3, 7, 12)), HasSubstr("no vectors of 4"));
  const DeviceView shifted = values.view(1, 3, 2, 3);
  EXPECT_THAT(refusal("commfuse::copy_words<uint4>", shape, shifted, shifted, 2),
              HasSubstr("not aligned"));
}

TEST(Twins, SumAddsStripsInFp32AndRoundsOnce) {
  // 256 + 1 + 1 is 258 in fp32; rounded to bf16 after each term it would stay 256.
  const auto sum = [](DType dtype, const char* kernel, float large) {
    std::vector<std::uint16_t> words(4);
    const std::array<float, 3> numbers{large, 1, 1};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      store(numbers[i], words.data(), static_cast<std::int64_t>(i), dtype);
    }
    const DeviceView a{&words[0], 1, 0, 1, 1, 1, dtype};
    const DeviceView terms{&words[1], 1, 1, 1, 1, 2, dtype};
    const DeviceView d{&words[3], 1, 0, 1, 1, 1, dtype};
    launch(kernel, row_grid(1, 1), d, a, terms).run();
    return load(words.data(), 3, dtype);
  };
  EXPECT_EQ(sum(DType::bf16, "commfuse::sum_strips<__nv_bfloat16, 1>", 256), 258);
  EXPECT_EQ(sum(DType::f16, "commfuse::sum_strips<__half, 1>", 2048), 2050);
}

TEST(Twins, ActivationsMatchTheirDefinitions) {
  std::vector<float> x;
  for (int i = -40; i <= 40; ++i) x.push_back(static_cast<float>(i) / 4.0F);
  x.push_back(x.front());  // an even number of columns
  std::vector<float> y(x.size());
  const auto cols = static_cast<std::int32_t>(x.size());
  const auto apply = [&](Activation kind, std::int32_t written) {
    const DeviceView to{y.data(), written, 0, 1, written, 1, DType::f32};
    const DeviceView from{x.data(), cols, 0, 1, cols, 1, DType::f32};
    launch("commfuse::apply_activation<float, 1>", row_grid(1, written), to, from, kind).run();
  };
  apply(Activation::relu, cols);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], std::max(x[i], 0.0F));
  EXPECT_FALSE(std::signbit(y[0]));
  apply(Activation::gelu, cols);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i] * 0.5 * std::erfc(-x[i] / std::sqrt(2.0));
    EXPECT_NEAR(y[i], value, 1e-5 * std::abs(value) + 1e-30);
  }
  apply(Activation::swiglu, cols / 2);
  for (std::size_t i = 0; i < x.size() / 2; ++i) {
    const double value = x[i] / (1.0 + std::exp(-double{x[i]})) * x[i + x.size() / 2];
    EXPECT_NEAR(y[i], value, 1e-5 * std::abs(value) + 1e-30);
  }
}

/// Two heads of three rows, a triangle and a part that every row sees but for its begin.
SoftmaxRows two_parts(std::vector<float>& scores, void* probabilities, DType dtype) {
  return {.scores = scores.data(),
          .probabilities = probabilities,
          .pitch = 12,
          .rows = 3,
          .heads = 2,
          .parts = {{.column = 0, .count = 3, .end = 1, .end_step = 1},
                    {.column = 8, .count = 4, .begin = 1, .begin_step = 1, .end = 4}},
          .dtype = dtype};
}

bool sees(std::int64_t row, std::int64_t column) {
  return column < 3 ? column <= row : column >= 9 + row;
}

const char* softmax_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      return "commfuse::softmax_rows<__nv_bfloat16>";
    case DType::f16:
      return "commfuse::softmax_rows<__half>";
  }
  return "commfuse::softmax_rows<float>";
}

TEST(Twins, SoftmaxMasksAndDivides) {
  for (const DType dtype : kDTypes) {
    std::vector<float> scores(72);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] = std::sin(static_cast<float>(i * i));
    }
    const std::vector<float> before = scores;
    std::vector<float> room(72, -1.0F);
    void* const target = dtype == DType::f32 ? scores.data() : room.data();
    const SoftmaxRows rows = two_parts(scores, target, dtype);
    const Work work = launch(softmax_of(dtype), {dim3(3, 2), dim3(256)}, rows);
    work.run();
    for (std::int64_t i = 0; i < 6; ++i) {
      double sum = 0;
      for (std::int64_t c = 0; c < 12; ++c) {
        if ((c < 3 || c >= 8) && sees(i % 3, c)) {
          sum += std::exp(double{before[static_cast<std::size_t>(i * 12 + c)]});
        }
      }
      for (std::int64_t c = 0; c < 12; ++c) {
        if (c >= 3 && c < 8) continue;
        const double weight = std::exp(double{before[static_cast<std::size_t>(i * 12 + c)]}) / sum;
        const float got = load(target, i * 12 + c, dtype);
        const double bound = dtype == DType::f32 ? 1e-6 : 0x1p-8;
        if (sees(i % 3, c)) {
          EXPECT_NEAR(got, weight, bound * weight) << i << " " << c;
        } else {
          EXPECT_EQ(got, 0.0F) << i << " " << c;
        }
      }
    }
  }
}

TEST(Twins, SoftmaxReadsVisibleScoresAndWritesWholeParts) {
  std::vector<float> scores(72);
  const SoftmaxRows rows = two_parts(scores, scores.data(), DType::f32);
  const Work work = launch("commfuse::softmax_rows<float>", {dim3(3, 2), dim3(256)}, rows);
  const auto reads = offsets(work.reads, scores.data());
  // the end of a row touches the begin of the next
  EXPECT_THAT(
      std::vector(reads.begin(), reads.begin() + 4),
      testing::ElementsAre(std::pair(0, 1), std::pair(9, 5), std::pair(22, 5), std::pair(35, 2)));
  const auto writes = offsets(work.writes, scores.data());
  EXPECT_THAT(std::vector(writes.begin(), writes.begin() + 2),
              testing::ElementsAre(std::pair(0, 3), std::pair(8, 7)));
  EXPECT_EQ(writes.back(), std::pair(std::int64_t{68}, std::size_t{4}));
}

TEST(Twins, SoftmaxWithAnotherGridIsFound) {
  std::vector<float> scores(72);
  const SoftmaxRows rows = two_parts(scores, scores.data(), DType::f32);
  const char* const kernel = "commfuse::softmax_rows<float>";
  EXPECT_NE(refusal(kernel, {dim3(2, 2), dim3(256)}, rows), "");
  EXPECT_NE(refusal(kernel, {dim3(3, 1), dim3(256)}, rows), "");
  EXPECT_NE(refusal(kernel, {dim3(3, 2), dim3(128)}, rows), "");
}

TEST(Twins, RoundingIsToNearestEven) {
  const auto rounded = [](DType dtype, const char* kernel, std::vector<float> source) {
    std::vector<std::uint16_t> target(4);
    const DeviceView from{source.data(), 4, 0, 1, 4, 1, DType::f32};
    const DeviceView to{target.data(), 4, 0, 1, 4, 1, dtype};
    launch(kernel, row_grid(1, 1), to, from).run();
    return target;
  };
  // exactly, halfway down, halfway up, exactly
  EXPECT_THAT(rounded(DType::bf16, "commfuse::round_elements<__nv_bfloat16, 4>",
                      {1.0F, 0x1.01p0F, 0x1.03p0F, -3.0F}),
              testing::ElementsAre(0x3f80, 0x3f80, 0x3f82, 0xc040));
  EXPECT_THAT(rounded(DType::f16, "commfuse::round_elements<__half, 4>",
                      {1.0F, 0x1.002p0F, 0x1.006p0F, -3.0F}),
              testing::ElementsAre(0x3c00, 0x3c00, 0x3c02, 0xc200));
}

}  // namespace
}  // namespace commfuse::fake
