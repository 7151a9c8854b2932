// SPDX-License-Identifier: Apache-2.0
// Model shapes: from presets (suite/models/*.toml, embedded at build time) or from `key=value`
// text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "suite/compute.h"
#include "suite/tensor.h"

namespace commfuse {

/// One model replica and one batch of tokens through it. All sizes are global (before any cut over
/// ranks).
struct Shape {
  std::string model = "custom";  // preset name
  std::int32_t hidden = 0;
  std::int32_t ffn = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;  // hidden / heads unless given
  std::int32_t layers = 1;    // of a preset, those of the model
  Activation activation = Activation::swiglu;
  bool causal = true;
  std::int32_t tokens = 0;
  DType dtype = DType::f32;
  DType gradient = DType::f32;  // of weights: fp32, as Megatron-LM keeps them, or the dtype
  std::int32_t bucket = 0;  // bytes of weight gradients that are reduced together; 0: one weight
};

std::string_view name_of(Activation activation);

/// Names of the embedded presets, sorted.
std::span<const std::string_view> preset_names();
/// Throws UsageError listing the presets.
Shape preset(std::string_view name);
/// "hidden=8192,ffn=28672,heads=64,kv_heads=8,layers=1,activation=swiglu,causal=true,head_dim=128".
/// Unknown keys, zero, negative and overflowing values throw UsageError.
Shape parse_shape(std::string_view text);
/// "4096", "8K", "1M": a positive count below 2^31; throws UsageError.
std::int32_t parse_count(std::string_view text, std::string_view what);

}  // namespace commfuse
