// SPDX-License-Identifier: Apache-2.0
// Against arithmetic in float64, and exhaustively where there are 65,536 numbers.
#include "harness/host/float_conversion.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/suite/rounded_to.h"

namespace commfuse {
namespace {

using Word = std::uint16_t;

std::vector<Word> stored(DType dtype, const std::vector<float>& values) {
  std::vector<Word> words(values.size());
  store_floats(dtype, values.data(), reinterpret_cast<std::byte*>(words.data()),
               static_cast<std::int64_t>(values.size()));
  return words;
}

std::vector<float> loaded(DType dtype, const std::vector<Word>& words) {
  std::vector<float> values(words.size());
  load_floats(dtype, reinterpret_cast<const std::byte*>(words.data()), values.data(),
              static_cast<std::int64_t>(words.size()));
  return values;
}

Word one(DType dtype, float value) { return stored(dtype, {value})[0]; }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

std::vector<Word> every_word() {
  std::vector<Word> words;
  for (std::uint32_t word = 0; word < 0x10000U; ++word) words.push_back(static_cast<Word>(word));
  return words;
}

/// What the word means, by the definition of a binary format.
double meaning(DType dtype, Word word) {
  const int fraction_bits = limits_of(dtype).bits - 1;
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = word >> fraction_bits & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(word & ((1 << fraction_bits) - 1), -fraction_bits);
  const double sign = (word & 0x8000) == 0 ? 1 : -1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const int least = limits_of(dtype).least_exponent;
  if (exponent == 0) return sign * std::ldexp(fraction, least);
  return sign * std::ldexp(1 + fraction, exponent - 1 + least);
}

class Narrow : public testing::TestWithParam<DType> {};

TEST_P(Narrow, EveryWordMeansWhatItsFormatSays) {
  const std::vector<Word> words = every_word();
  const std::vector<float> values = loaded(GetParam(), words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const double expected = meaning(GetParam(), words[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[i])) << std::hex << words[i];
    } else {
      ASSERT_EQ(values[i], expected) << std::hex << words[i];
    }
    ASSERT_EQ(std::signbit(values[i]), (words[i] & 0x8000) != 0) << std::hex << words[i];
  }
}

TEST_P(Narrow, EveryWordSurvivesARoundTripAndNaNBecomesQuiet) {
  const std::vector<Word> words = every_word();
  const std::vector<Word> back = stored(GetParam(), loaded(GetParam(), words));
  const int quiet = 1 << (limits_of(GetParam()).bits - 2);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool nan = std::isnan(meaning(GetParam(), words[i]));
    ASSERT_EQ(back[i], nan ? (words[i] | quiet) : words[i]);
  }
}

/// Both neighbours of every number, and what lies halfway between them and beside that.
TEST_P(Narrow, RoundsToTheNearestAndToEven) {
  const std::vector<float> numbers = loaded(GetParam(), every_word());
  std::vector<float> values;
  for (std::size_t word = 0; word < numbers.size(); ++word) {
    if (!std::isfinite(numbers[word])) continue;
    const float next = std::isfinite(numbers[word + 1])
                           ? numbers[word + 1]
                           : std::copysign(std::ldexp(1.0F, std::ilogb(numbers[word]) + 1),
                                           numbers[word]);  // were the range larger
    const auto half = static_cast<float>((double{numbers[word]} + next) / 2);
    for (const float value : {half, std::nextafter(half, numbers[word]), std::nextafter(half, next),
                              std::nextafter(numbers[word], next)}) {
      if (std::isfinite(value)) values.push_back(value);
    }
  }
  ASSERT_GT(values.size(), 200'000U);
  const std::vector<float> rounded = loaded(GetParam(), stored(GetParam(), values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(rounded[i], rounded_to(GetParam(), values[i])) << std::hexfloat << values[i];
    ASSERT_EQ(std::signbit(rounded[i]), std::signbit(values[i])) << std::hexfloat << values[i];
  }
}

TEST_P(Narrow, RoundsAnyFloat) {
  std::mt19937 random(17);
  std::vector<float> values;
  for (int i = 0; i < 1'000'000; ++i) values.push_back(float_of(random()));
  const std::vector<float> rounded = loaded(GetParam(), stored(GetParam(), values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(rounded[i]));
    } else {
      ASSERT_EQ(rounded[i], rounded_to(GetParam(), values[i])) << std::hexfloat << values[i];
    }
  }
}

TEST_P(Narrow, AddsWhatItLoads) {
  const std::vector<Word> words = every_word();
  const std::vector<float> values = loaded(GetParam(), words);
  std::vector<float> sums(words.size(), 0.375F);
  add_floats(GetParam(), reinterpret_cast<const std::byte*>(words.data()), sums.data(),
             static_cast<std::int64_t>(words.size()));
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!std::isnan(values[i])) {
      ASSERT_EQ(sums[i], 0.375F + values[i]);
    } else {
      ASSERT_TRUE(std::isnan(sums[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Narrow, testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(Bf16, AsBits) {
  EXPECT_EQ(one(DType::bf16, float_of(0x3f807fffU)), 0x3f80);  // below half
  EXPECT_EQ(one(DType::bf16, float_of(0x3f808000U)), 0x3f80);  // half, to even
  EXPECT_EQ(one(DType::bf16, float_of(0x3f808001U)), 0x3f81);  // above half
  EXPECT_EQ(one(DType::bf16, float_of(0xbf818000U)), 0xbf82);  // half, to even
  EXPECT_EQ(one(DType::bf16, float_of(0x7f7fffffU)), 0x7f80);  // rounds up to infinity
  EXPECT_EQ(one(DType::bf16, -0.0F), 0x8000);
}

TEST(F16, AsBits) {
  EXPECT_EQ(one(DType::f16, 1.0F), 0x3c00);
  EXPECT_EQ(one(DType::f16, -2.0F), 0xc000);
  EXPECT_EQ(one(DType::f16, 0x1p-14F), 0x0400);         // the least normal number
  EXPECT_EQ(one(DType::f16, 0x1.ff8p-15F), 0x03ff);     // the largest subnormal one
  EXPECT_EQ(one(DType::f16, 0x1.ffcp-15F), 0x0400);     // halfway between them, to even
  EXPECT_EQ(one(DType::f16, 0x1p-24F), 0x0001);         // the least number
  EXPECT_EQ(one(DType::f16, 0x1p-25F), 0x0000);         // half of it, to even
  EXPECT_EQ(one(DType::f16, 0x1.000002p-25F), 0x0001);  // more than half
  EXPECT_EQ(one(DType::f16, -0x1p-149F), 0x8000);
  EXPECT_EQ(one(DType::f16, 65504.0F), 0x7bff);
  EXPECT_EQ(one(DType::f16, 65519.0F), 0x7bff);
  EXPECT_EQ(one(DType::f16, 65520.0F), 0x7c00);  // halfway to 65536, to even: out of range
  EXPECT_EQ(one(DType::f16, -3e38F), 0xfc00);
}

TEST(NaN, StaysNaNOfItsSign) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::uint32_t bits :
         {0x7fc00000U, 0x7f800001U, 0x7fffffffU, 0xffffffffU, 0xff800001U}) {
      const Word kept = one(dtype, float_of(bits));
      EXPECT_TRUE(std::isnan(meaning(dtype, kept))) << std::hex << bits;
      EXPECT_EQ(kept & 0x8000, static_cast<int>(bits >> 16U & 0x8000U));
    }
  }
}

TEST(Fp32, IsCopied) {
  const std::vector<float> values{1.5F, -0.0F, 3e38F, 1e-45F};
  std::vector<float> copy(values.size());
  store_floats(DType::f32, values.data(), reinterpret_cast<std::byte*>(copy.data()), 4);
  EXPECT_EQ(copy, values);
  load_floats(DType::f32, reinterpret_cast<const std::byte*>(values.data()), copy.data(), 3);
  add_floats(DType::f32, reinterpret_cast<const std::byte*>(values.data()), copy.data(), 2);
  EXPECT_EQ(copy, (std::vector<float>{3.0F, 0.0F, 3e38F, 1e-45F}));
}

}  // namespace
}  // namespace commfuse
