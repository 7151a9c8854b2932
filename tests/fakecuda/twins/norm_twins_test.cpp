// SPDX-License-Identifier: Apache-2.0
// Twins of norms and gradients by hand-made launches: the ranges they declare, what they refuse,
// and where they round.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "suite/compute.h"
#include "tests/fakecuda/twins/elements.h"
#include "tests/fakecuda/twins/hand_launch.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const RowGrid kBlockPerRow{dim3(3), dim3(256)};  // of three rows

TEST(NormTwins, DeclareWhatTheyReadAndWrite) {
  Counted in(100);
  Counted more(100);
  Counted out(100);
  const DeviceView x = in.view(1, 3, 4, 10);
  const DeviceView gamma = in.view(50, 1, 4, 4);
  const DeviceView dy = more.view(0, 3, 4, 20);
  const DeviceView y = out.view(0, 3, 4, 4);
  const Work norm = launch("commfuse::norm_rows<float, 1>", kBlockPerRow, y, x, gamma);
  EXPECT_THAT(offsets(norm.reads, in.values.data()),
              ElementsAre(std::pair(1, 4), std::pair(11, 4), std::pair(21, 4), std::pair(50, 4)));
  EXPECT_THAT(offsets(norm.writes, out.values.data()), ElementsAre(std::pair(0, 12)));
  const Work gradient =
      launch("commfuse::norm_gradient_rows<float, 1>", kBlockPerRow, y, dy, x, gamma);
  EXPECT_EQ(gradient.reads.size(), 7U);
  EXPECT_EQ(offsets(gradient.reads, more.values.data())[2],
            std::pair(std::int64_t{40}, std::size_t{4}));
  EXPECT_THAT(offsets(gradient.writes, out.values.data()), ElementsAre(std::pair(0, 12)));
}

TEST(NormTwins, GammaPassesSumsFromKernelToKernel) {
  Counted in(100);
  Counted space(100);
  const DeviceView x = in.view(0, 3, 4, 10);
  const DeviceView dy = in.view(50, 3, 4, 10);
  float* const inverse = space.values.data();
  float* const sums = inverse + 32;
  const Work of_rows = launch("commfuse::inverse_rms_rows<float, 1>", kBlockPerRow, inverse, x);
  EXPECT_THAT(offsets(of_rows.writes, inverse), ElementsAre(std::pair(0, 3)));
  const Work of_groups = launch("commfuse::gamma_sums<float, 1>", row_grid(2, 4), sums, dy, x,
                                static_cast<const float*>(inverse), 2);
  EXPECT_EQ(of_groups.reads.size(), 7U);
  EXPECT_EQ(offsets(of_groups.reads, inverse).back(), std::pair(std::int64_t{0}, std::size_t{3}));
  EXPECT_THAT(offsets(of_groups.writes, inverse), ElementsAre(std::pair(32, 8)));
  const DeviceView d = in.view(90, 1, 4, 4);
  for (const bool adds : {false, true}) {
    const Work total = launch("commfuse::gamma_total<float, 1>", row_grid(1, 4), d,
                              static_cast<const float*>(sums), 2, adds);
    EXPECT_EQ(offsets(total.reads, inverse)[0], std::pair(std::int64_t{32}, std::size_t{8}));
    EXPECT_EQ(total.reads.size(), adds ? 2U : 1U);
    EXPECT_THAT(offsets(total.writes, in.values.data()), ElementsAre(std::pair(90, 4)));
  }
}

TEST(NormTwins, OtherGridsAreFound) {
  Counted values(4000);
  const DeviceView rows = values.view(0, 3, 4, 4);
  const DeviceView row = values.view(0, 1, 4, 4);
  float* const floats = values.values.data();
  for (const RowGrid& wrong :
       {RowGrid{dim3(2), dim3(256)}, RowGrid{dim3(3), dim3(128)}, RowGrid{dim3(3, 2), dim3(256)}}) {
    EXPECT_THAT(refusal("commfuse::norm_rows<float, 4>", wrong, rows, rows, row),
                HasSubstr("for 3 rows"));
    EXPECT_THAT(refusal("commfuse::norm_gradient_rows<float, 4>", wrong, rows, rows, rows, row),
                HasSubstr("for 3 rows"));
    EXPECT_THAT(refusal("commfuse::inverse_rms_rows<float, 4>", wrong, floats, rows),
                HasSubstr("for 3 rows"));
  }
  RowGrid few = row_grid(500, 4);
  --few.grid.x;
  const DeviceView many = values.view(0, 500, 4, 4);
  EXPECT_THAT(refusal("commfuse::apply_activation_gradient<float, 1>", few, many, many, many,
                      Activation::relu),
              HasSubstr("for 500 rows"));
  EXPECT_THAT(refusal("commfuse::gamma_sums<float, 1>", few, floats, many, many,
                      static_cast<const float*>(floats), 1),
              HasSubstr("for 500 rows"));
}

TEST(NormTwins, VectorsThatDoNotFitAreFound) {
  Counted values(200);
  const DeviceView rows = values.view(0, 3, 8, 12);
  const DeviceView row = values.view(0, 1, 8, 8);
  const DeviceView off = values.view(1, 1, 8, 8);
  const DeviceView off_rows = values.view(1, 3, 8, 12);
  float* const floats = values.values.data();
  const auto* const sums = static_cast<const float*>(floats);
  const std::string_view reason = "no vectors of 4";
  EXPECT_EQ(refusal("commfuse::norm_rows<float, 4>", kBlockPerRow, rows, rows, row), "");
  EXPECT_THAT(refusal("commfuse::norm_rows<float, 4>", kBlockPerRow, rows, rows, off),
              HasSubstr(reason));
  EXPECT_THAT(
      refusal("commfuse::norm_gradient_rows<float, 4>", kBlockPerRow, rows, off_rows, rows, row),
      HasSubstr(reason));
  EXPECT_THAT(refusal("commfuse::inverse_rms_rows<float, 4>", kBlockPerRow, floats, off_rows),
              HasSubstr(reason));
  EXPECT_THAT(refusal("commfuse::apply_activation_gradient<float, 4>", row_grid(3, 2), rows, rows,
                      off_rows, Activation::relu),
              HasSubstr(reason));
  const RowGrid one = row_grid(1, 2);
  EXPECT_THAT(refusal("commfuse::gamma_sums<float, 4>", one, floats, rows, off_rows, sums, 64),
              HasSubstr(reason));
  EXPECT_THAT(refusal("commfuse::gamma_sums<float, 4>", one, floats + 1, rows, rows, sums, 64),
              HasSubstr("not aligned"));
  EXPECT_THAT(refusal("commfuse::gamma_total<float, 4>", one, off, sums, 1, false),
              HasSubstr(reason));
  EXPECT_THAT(refusal("commfuse::gamma_total<float, 4>", one, row, sums + 1, 1, false),
              HasSubstr("not aligned"));
}

/// dX of one number; up is 3.
float gradient_of(Activation kind, float dy, float in) {
  std::vector<float> x{in, 3.0F};
  std::vector<float> dx(2);
  const std::int32_t cols = kind == Activation::swiglu ? 2 : 1;
  launch("commfuse::apply_activation_gradient<float, 1>", row_grid(1, 1),
         DeviceView{dx.data(), 2, 0, 1, cols, 1, DType::f32},
         DeviceView{&dy, 1, 0, 1, 1, 1, DType::f32},
         DeviceView{x.data(), 2, 0, 1, cols, 1, DType::f32}, kind)
      .run();
  return dx[0];
}

TEST(NormTwins, GradientsOfActivationsKeepWhatIsNoNumber) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(gradient_of(Activation::relu, 2, 0.5F), 2.0F);
  EXPECT_EQ(gradient_of(Activation::relu, 2, 0.0F), 0.0F);
  EXPECT_EQ(gradient_of(Activation::gelu, 2, 0.0F), 1.0F);
  EXPECT_EQ(gradient_of(Activation::swiglu, 2, 0.0F), 3.0F);
  for (const Activation kind : {Activation::relu, Activation::gelu, Activation::swiglu}) {
    EXPECT_TRUE(std::isnan(gradient_of(kind, kNaN, -1)));
    EXPECT_TRUE(std::isnan(gradient_of(kind, 1, kNaN)));
  }
}

/// 256 + 1 + 1 is 258 in fp32; rounded to bf16 after each group it would stay 256.
TEST(NormTwins, GammaRoundsOnce) {
  std::uint16_t word = 0;
  store(256, &word, 0, DType::bf16);
  const std::vector<float> sums{1, 1};
  launch("commfuse::gamma_total<__nv_bfloat16, 1>", row_grid(1, 1),
         DeviceView{&word, 1, 0, 1, 1, 1, DType::bf16}, sums.data(), 2, true)
      .run();
  EXPECT_EQ(load(&word, 0, DType::bf16), 258);
}

}  // namespace
}  // namespace commfuse::fake
