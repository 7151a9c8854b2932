// SPDX-License-Identifier: Apache-2.0
// The twin of Adam's kernel by hand-made launches: the ranges it declares, what it refuses, and
// where it rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "harness/cuda/adam_views.h"
#include "tests/fakecuda/twins/elements.h"
#include "tests/fakecuda/twins/hand_launch.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Seven pieces of 12 numbers, without a copy.
AdamViews pieces_of(Counted& numbers, std::int32_t rows, std::int32_t cols) {
  const auto view = [&](std::int64_t piece) { return numbers.view(piece * 12, rows, cols, cols); };
  return {view(0), view(1), view(2), view(3), view(4), view(5), view(6), {}};
}

TEST(AdamTwin, DeclaresWhatItReadsAndWrites) {
  Counted numbers(84);
  std::vector<std::uint16_t> copy(12);
  AdamViews views = pieces_of(numbers, 3, 4);
  const Work alone = launch("commfuse::adam_rows<float, float, 4>", row_grid(3, 1), views);
  EXPECT_THAT(offsets(alone.reads, numbers.values.data()), ElementsAre(std::pair(36, 48)));
  EXPECT_THAT(offsets(alone.writes, numbers.values.data()), ElementsAre(std::pair(0, 36)));
  views.copy = {copy.data(), 4, 0, 3, 4, 1, DType::bf16};
  const Work copied = launch("commfuse::adam_rows<float, __nv_bfloat16, 4>", row_grid(3, 1), views);
  ASSERT_EQ(copied.writes.size(), 2U);
  EXPECT_EQ(copied.writes[1].data, copy.data());
  EXPECT_EQ(copied.writes[1].bytes, 24U);
}

TEST(AdamTwin, FindsRowsLeftOutAndVectorsThatDoNotFit) {
  Counted numbers(100);
  const AdamViews rows = pieces_of(numbers, 3, 4);
  EXPECT_THAT(refusal("commfuse::adam_rows<float, float, 4>", {dim3(2), dim3(1)}, rows),
              HasSubstr("for 3 rows"));
  AdamViews shifted = rows;
  shifted.v = numbers.view(61, 3, 4, 4);
  EXPECT_THAT(refusal("commfuse::adam_rows<float, float, 4>", row_grid(3, 1), shifted),
              HasSubstr("no vectors of 4"));
  EXPECT_EQ(refusal("commfuse::adam_rows<float, float, 1>", row_grid(3, 4), shifted), "");
}

TEST(AdamTwin, RoundsTheCopyAlone) {
  std::vector<float> state{0, 0, 0, 1.0F, 0.5F, -0.25F, 0.5F};  // W', M', V', W, M, V, G
  std::uint16_t copy = 0;
  const auto one = [&](std::size_t i) { return DeviceView{&state[i], 1, 0, 1, 1, 1, DType::f32}; };
  const AdamViews views{one(0), one(1), one(2), one(3),
                        one(4), one(5), one(6), {&copy, 1, 0, 1, 1, 1, DType::bf16}};
  launch("commfuse::adam_rows<float, __nv_bfloat16, 1>", row_grid(1, 1), views).run();
  const double squares = 0.25 / (1 - std::pow(0.95, 10));
  const double mean = 0.5 / (1 - std::pow(0.9, 10));
  EXPECT_NEAR(state[0], 1 - 1e-3 * (0.1 + mean / std::sqrt(squares)), 1e-7);
  EXPECT_NEAR(state[1], 0.5, 1e-7);
  EXPECT_NEAR(state[2], 0.25, 1e-7);
  EXPECT_EQ(load(&copy, 0, DType::bf16), 1.0F);  // 0.999 lies between 0.996 and 1
}

}  // namespace
}  // namespace commfuse::fake
