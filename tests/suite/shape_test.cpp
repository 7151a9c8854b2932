// SPDX-License-Identifier: Apache-2.0
#include "suite/shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "suite/error.h"

namespace commfuse {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string shape_error(std::string_view text) {
  return message_of([text] { parse_shape(text); });
}

std::string count_error(std::string_view text) {
  return message_of([text] { parse_count(text, "tokens"); });
}

struct Known {
  const char* name;
  std::int32_t hidden, ffn, heads, kv_heads, layers;
  Activation activation;
};

TEST(Presets, AreTheShapesThatPeopleUse) {
  const Known known[] = {
      {"gpt3-175b", 12288, 49152, 96, 96, 96, Activation::gelu},
      {"llama2-7b", 4096, 11008, 32, 32, 32, Activation::swiglu},
      {"llama3-405b", 16384, 53248, 128, 8, 126, Activation::swiglu},
      {"llama3-70b", 8192, 28672, 64, 8, 80, Activation::swiglu},
      {"llama3-8b", 4096, 14336, 32, 8, 32, Activation::swiglu},
      {"mistral-7b", 4096, 14336, 32, 8, 32, Activation::swiglu},
      {"qwen2-72b", 8192, 29568, 64, 8, 80, Activation::swiglu},
  };
  ASSERT_EQ(preset_names().size(), std::size(known));
  EXPECT_TRUE(std::is_sorted(preset_names().begin(), preset_names().end()));
  for (std::size_t i = 0; i < std::size(known); ++i) {
    const Known& expected = known[i];
    ASSERT_EQ(preset_names()[i], expected.name);
    const Shape shape = preset(expected.name);
    EXPECT_EQ(shape.model, expected.name);
    EXPECT_EQ(shape.hidden, expected.hidden) << expected.name;
    EXPECT_EQ(shape.ffn, expected.ffn) << expected.name;
    EXPECT_EQ(shape.heads, expected.heads) << expected.name;
    EXPECT_EQ(shape.kv_heads, expected.kv_heads) << expected.name;
    EXPECT_EQ(shape.layers, expected.layers) << expected.name;
    EXPECT_EQ(shape.activation, expected.activation) << expected.name;
    EXPECT_EQ(shape.head_dim, 128) << expected.name;
    EXPECT_TRUE(shape.causal) << expected.name;
  }
}

TEST(Presets, UnknownOnesListTheValid) {
  EXPECT_EQ(message_of([] { preset("llama9"); }),
            "unknown model 'llama9'; valid: gpt3-175b, llama2-7b, llama3-405b, llama3-70b, "
            "llama3-8b, mistral-7b, qwen2-72b");
}

TEST(ParseShape, ReadsEveryKey) {
  const Shape shape = parse_shape(
      "hidden=8K,ffn=28672,heads=64,kv_heads=8,head_dim=96,layers=3,activation=gelu,causal=false");
  EXPECT_EQ(shape.model, "custom");
  EXPECT_EQ(shape.hidden, 8192);
  EXPECT_EQ(shape.ffn, 28672);
  EXPECT_EQ(shape.heads, 64);
  EXPECT_EQ(shape.kv_heads, 8);
  EXPECT_EQ(shape.head_dim, 96);
  EXPECT_EQ(shape.layers, 3);
  EXPECT_EQ(shape.activation, Activation::gelu);
  EXPECT_FALSE(shape.causal);
}

TEST(ParseShape, FillsInDefaults) {
  const Shape shape = parse_shape("hidden=64,ffn=128,heads=8");
  EXPECT_EQ(shape.kv_heads, 8);
  EXPECT_EQ(shape.head_dim, 8);
  EXPECT_EQ(shape.layers, 1);
  EXPECT_EQ(shape.activation, Activation::swiglu);
  EXPECT_TRUE(shape.causal);
  EXPECT_EQ(parse_shape("hidden=64,ffn=128").heads, 0);
}

TEST(ParseShape, NamesWhatIsWrong) {
  EXPECT_EQ(shape_error("hidden=64,fnn=128"),
            "unknown key 'fnn' in shape; valid: hidden, ffn, heads, kv_heads, head_dim, layers, "
            "activation, causal");
  EXPECT_EQ(shape_error("hidden"),
            "shape takes key=value pairs, got 'hidden'; keys: hidden, ffn, heads, kv_heads, "
            "head_dim, layers, activation, causal");
  EXPECT_EQ(shape_error("hidden=64,hidden=64"), "key 'hidden' is given twice in shape");
  EXPECT_EQ(shape_error(""), "shape needs hidden, such as hidden=4096");
  EXPECT_EQ(shape_error("hidden=0"), "hidden must be positive, got '0'");
  EXPECT_EQ(shape_error("hidden=-64"), "hidden must be positive, got '-64'");
  EXPECT_EQ(shape_error("hidden=64,ffn=1073741824"), "ffn must be below 2^30, got 1073741824");
  EXPECT_EQ(shape_error("hidden=64,heads=65536,head_dim=32768"),
            "heads x head_dim must be below 2^31, got 65536 x 32768");
  EXPECT_EQ(shape_error("hidden=64,heads=6"),
            "hidden (64) must be divisible by heads (6) unless head_dim is given");
  EXPECT_EQ(shape_error("hidden=64,heads=8,kv_heads=3"),
            "heads (8) must be divisible by kv_heads (3)");
  EXPECT_EQ(shape_error("hidden=64,kv_heads=3"), "kv_heads and head_dim need heads in shape");
  EXPECT_EQ(shape_error("hidden=64,activation=tanh"),
            "unknown activation 'tanh'; valid: relu, gelu, swiglu");
  EXPECT_EQ(shape_error("hidden=64,causal=yes"), "causal must be true or false, got 'yes'");
}

TEST(ParseCount, ReadsSuffixes) {
  EXPECT_EQ(parse_count("4096", "tokens"), 4096);
  EXPECT_EQ(parse_count("8K", "tokens"), 8192);
  EXPECT_EQ(parse_count("8k", "tokens"), 8192);
  EXPECT_EQ(parse_count("1M", "tokens"), 1 << 20);
  EXPECT_EQ(parse_count("2147483647", "tokens"), 2147483647);
  EXPECT_EQ(parse_count("2047M", "tokens"), 2047 << 20);
}

TEST(ParseCount, NamesWhatIsWrong) {
  for (const char* text : {"", "K", "x", "8 ", " 8", "1e3", "+8", "8KK", "0x10", "1.5K"}) {
    EXPECT_EQ(count_error(text), "tokens must be a positive count such as 4096 or 8K, got '" +
                                     std::string{text} + "'");
  }
  for (const char* text : {"0", "-1", "0K", "-99999999999999999999"}) {
    EXPECT_EQ(count_error(text), "tokens must be positive, got '" + std::string{text} + "'");
  }
  for (const char* text : {"2147483648", "2048M", "2097152K", "99999999999999999999"}) {
    EXPECT_EQ(count_error(text), "tokens must be below 2^31, got '" + std::string{text} + "'");
  }
}

}  // namespace
}  // namespace commfuse
