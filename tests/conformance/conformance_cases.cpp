// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/conformance_cases.h"

#include <fmt/format.h>

#include <array>
#include <numeric>

namespace commfuse {
namespace {

using Cut = ImplementationCase::Cut;

// "even" shapes divide by every number of parts; "odd" ones have prime sizes and divide by few.
constexpr std::array kShapeCases{
    ShapeCase{.name = "qkv_grouped",
              .workload = "tpsp/qkv",
              .rows = 12,
              .hidden = 13,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 4},
    ShapeCase{
        .name = "ag_gemm_even", .workload = "tpsp/ag_gemm", .rows = 12, .hidden = 16, .ffn = 8},
    ShapeCase{.name = "ag_gemm_odd", .workload = "tpsp/ag_gemm", .rows = 3, .hidden = 17, .ffn = 5},
    ShapeCase{
        .name = "gemm_rs_even", .workload = "tpsp/gemm_rs", .rows = 12, .hidden = 12, .ffn = 16},
    ShapeCase{.name = "gemm_rs_odd", .workload = "tpsp/gemm_rs", .rows = 5, .hidden = 13, .ffn = 7},
    ShapeCase{.name = "mlp_relu_even", .workload = "tpsp/mlp", .rows = 12, .hidden = 12, .ffn = 8},
    ShapeCase{.name = "mlp_relu_odd", .workload = "tpsp/mlp", .rows = 3, .hidden = 7, .ffn = 5},
    ShapeCase{.name = "mlp_swiglu",
              .workload = "tpsp/mlp",
              .rows = 12,
              .hidden = 12,
              .ffn = 8,
              .activation = Activation::swiglu},
    ShapeCase{.name = "mlp_gelu",
              .workload = "tpsp/mlp",
              .rows = 12,
              .hidden = 12,
              .ffn = 8,
              .activation = Activation::gelu},
    ShapeCase{.name = "mlp_rs_relu", .workload = "tpsp/mlp_rs", .rows = 12, .hidden = 12, .ffn = 8},
    ShapeCase{.name = "mlp_rs_swiglu",
              .workload = "tpsp/mlp_rs",
              .rows = 12,
              .hidden = 12,
              .ffn = 8,
              .activation = Activation::swiglu},
    ShapeCase{.name = "mlp_rs_gelu",
              .workload = "tpsp/mlp_rs",
              .rows = 12,
              .hidden = 12,
              .ffn = 8,
              .activation = Activation::gelu},
    ShapeCase{.name = "attention_full",
              .workload = "tpsp/attention",
              .rows = 12,
              .hidden = 12,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 8},
    ShapeCase{.name = "attention_causal",
              .workload = "tpsp/attention",
              .rows = 12,
              .hidden = 12,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 8,
              .causal = true},
    ShapeCase{.name = "attention_causal_grouped",
              .workload = "tpsp/attention",
              .rows = 8,
              .hidden = 8,
              .heads = 4,
              .kv_heads = 2,
              .head_dim = 6,
              .causal = true},
    ShapeCase{.name = "attention_causal_shared",
              .workload = "tpsp/attention",
              .rows = 8,
              .hidden = 8,
              .heads = 2,
              .kv_heads = 1,
              .shared_kv_heads = true,
              .head_dim = 6,
              .causal = true},
    ShapeCase{.name = "attention_full_grouped",
              .workload = "tpsp/attention",
              .rows = 3,
              .hidden = 13,
              .heads = 3,
              .kv_heads = 1,
              .head_dim = 7},
    ShapeCase{.name = "layer_causal_grouped",
              .workload = "tpsp/layer",
              .rows = 8,
              .hidden = 12,
              .ffn = 8,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 6,
              .activation = Activation::swiglu,
              .causal = true},
    ShapeCase{.name = "layer_full",
              .workload = "tpsp/layer",
              .rows = 12,
              .hidden = 13,
              .ffn = 5,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 7,
              .activation = Activation::gelu},
    ShapeCase{.name = "zero3_even", .workload = "dp/zero3", .rows = 1, .hidden = 12, .ffn = 12},
    ShapeCase{.name = "zero3_odd", .workload = "dp/zero3", .rows = 2, .hidden = 3, .ffn = 5},
    ShapeCase{.name = "zero3_layers",
              .workload = "dp/zero3",
              .rows = 1,
              .hidden = 4,
              .ffn = 8,
              .layers = 2},
    ShapeCase{.name = "zero2_even", .workload = "dp/zero2", .rows = 1, .hidden = 12, .ffn = 12},
    ShapeCase{.name = "zero2_odd", .workload = "dp/zero2", .rows = 2, .hidden = 3, .ffn = 5},
    ShapeCase{.name = "zero2_layers",
              .workload = "dp/zero2",
              .rows = 1,
              .hidden = 4,
              .ffn = 8,
              .layers = 2},
    // two maps in a bucket, then one: slices that lie across two maps
    ShapeCase{.name = "zero2_buckets",
              .workload = "dp/zero2",
              .rows = 1,
              .hidden = 4,
              .ffn = 8,
              .layers = 3,
              .bucket_maps = 2},
    ShapeCase{.name = "zero3_backward_even",
              .workload = "dp/zero3:backward",
              .rows = 1,
              .hidden = 12,
              .ffn = 12},
    ShapeCase{.name = "zero3_backward_layers",
              .workload = "dp/zero3:backward",
              .rows = 1,
              .hidden = 4,
              .ffn = 8,
              .layers = 2},
    ShapeCase{.name = "zero1_even", .workload = "dp/zero1", .rows = 1, .hidden = 4, .ffn = 8},
    ShapeCase{.name = "zero1_bucket",
              .workload = "dp/zero1",
              .rows = 1,
              .hidden = 4,
              .ffn = 8,
              .layers = 2,
              .bucket_maps = 2,
              .narrow_gradients = true},
    ShapeCase{.name = "ddp_even", .workload = "dp/ddp", .rows = 1, .hidden = 12, .ffn = 12},
    ShapeCase{.name = "ddp_odd", .workload = "dp/ddp", .rows = 2, .hidden = 3, .ffn = 5},
    ShapeCase{
        .name = "ddp_layers", .workload = "dp/ddp", .rows = 1, .hidden = 4, .ffn = 8, .layers = 2},
    ShapeCase{.name = "ddp_narrow_bucket",
              .workload = "dp/ddp",
              .rows = 1,
              .hidden = 4,
              .ffn = 8,
              .layers = 2,
              .bucket_maps = 2,
              .narrow_gradients = true},
    ShapeCase{.name = "ag_gemm_backward_even",
              .workload = "tpsp/ag_gemm:backward",
              .rows = 12,
              .hidden = 16,
              .ffn = 8},
    ShapeCase{.name = "ag_gemm_backward_odd",
              .workload = "tpsp/ag_gemm:backward",
              .rows = 3,
              .hidden = 17,
              .ffn = 5},
    ShapeCase{.name = "gemm_rs_backward_even",
              .workload = "tpsp/gemm_rs:backward",
              .rows = 12,
              .hidden = 12,
              .ffn = 16},
    ShapeCase{.name = "gemm_rs_backward_odd",
              .workload = "tpsp/gemm_rs:backward",
              .rows = 5,
              .hidden = 13,
              .ffn = 7},
    ShapeCase{.name = "mlp_backward_relu",
              .workload = "tpsp/mlp:backward",
              .rows = 12,
              .hidden = 12,
              .ffn = 8},
    ShapeCase{.name = "mlp_backward_swiglu",
              .workload = "tpsp/mlp:backward",
              .rows = 12,
              .hidden = 13,
              .ffn = 5,
              .activation = Activation::swiglu},
    ShapeCase{.name = "attention_backward_causal_grouped",
              .workload = "tpsp/attention:backward",
              .rows = 8,
              .hidden = 8,
              .heads = 4,
              .kv_heads = 2,
              .head_dim = 6,
              .causal = true},
    ShapeCase{.name = "attention_backward_full",
              .workload = "tpsp/attention:backward",
              .rows = 12,
              .hidden = 13,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 7},
    ShapeCase{.name = "layer_backward_causal_grouped",
              .workload = "tpsp/layer:backward",
              .rows = 8,
              .hidden = 12,
              .ffn = 8,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 6,
              .activation = Activation::swiglu,
              .causal = true},
    ShapeCase{.name = "layer_backward_full",
              .workload = "tpsp/layer:backward",
              .rows = 12,
              .hidden = 13,
              .ffn = 5,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 7,
              .activation = Activation::gelu},
    ShapeCase{.name = "qkv_backward_grouped",
              .workload = "tpsp/qkv:backward",
              .rows = 12,
              .hidden = 13,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 4},
    ShapeCase{.name = "ulysses_qkv_grouped",
              .workload = "ulysses/qkv",
              .rows = 12,
              .hidden = 13,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 4},
    ShapeCase{.name = "ulysses_qkv_backward_causal",
              .workload = "ulysses/qkv:backward",
              .rows = 8,
              .hidden = 12,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 6,
              .causal = true},
    ShapeCase{.name = "ulysses_qkv_backward_full",
              .workload = "ulysses/qkv:backward",
              .rows = 3,
              .hidden = 13,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 7},
    ShapeCase{.name = "ulysses_attention_causal",
              .workload = "ulysses/attention",
              .rows = 8,
              .hidden = 8,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 6,
              .causal = true},
    ShapeCase{.name = "ulysses_attention_full",
              .workload = "ulysses/attention",
              .rows = 3,
              .hidden = 13,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 7},
    ShapeCase{.name = "ulysses_attention_backward_causal",
              .workload = "ulysses/attention:backward",
              .rows = 8,
              .hidden = 8,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 6,
              .causal = true},
    ShapeCase{.name = "ulysses_attention_backward_full",
              .workload = "ulysses/attention:backward",
              .rows = 3,
              .hidden = 13,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 7},
    ShapeCase{.name = "ulysses_block_backward_causal",
              .workload = "ulysses/block:backward",
              .rows = 4,
              .hidden = 12,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 4,
              .causal = true},
    ShapeCase{.name = "ulysses_block_backward_full",
              .workload = "ulysses/block:backward",
              .rows = 4,
              .hidden = 13,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 5},
    ShapeCase{.name = "ulysses_block_causal",
              .workload = "ulysses/block",
              .rows = 8,
              .hidden = 12,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 6,
              .causal = true},
    ShapeCase{.name = "ulysses_block_full",
              .workload = "ulysses/block",
              .rows = 12,
              .hidden = 13,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 7},
    ShapeCase{.name = "ulysses_layer_backward_causal_grouped",
              .workload = "ulysses/layer:backward",
              .rows = 4,
              .hidden = 12,
              .ffn = 8,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 4,
              .activation = Activation::swiglu,
              .causal = true},
    ShapeCase{.name = "ulysses_layer_backward_full",
              .workload = "ulysses/layer:backward",
              .rows = 4,
              .hidden = 13,
              .ffn = 5,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 5,
              .activation = Activation::gelu},
    ShapeCase{.name = "ulysses_layer_causal_grouped",
              .workload = "ulysses/layer",
              .rows = 8,
              .hidden = 12,
              .ffn = 8,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 6,
              .activation = Activation::swiglu,
              .causal = true},
    ShapeCase{.name = "ulysses_layer_full",
              .workload = "ulysses/layer",
              .rows = 12,
              .hidden = 13,
              .ffn = 5,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 7},
};

bool is_dp(const ShapeCase& shape) { return shape.workload.starts_with("dp/"); }

/// Rows of what a rank sends or receives, or what divides all of them: data parallelism cuts
/// weights of ffn rows and of hidden rows.
std::int32_t slice_rows(const ShapeCase& shape) {
  return is_dp(shape) ? std::gcd(shape.ffn, shape.hidden) : shape.rows;
}

/// The same of columns of what is reduced; weights have as many as they have rows on all ranks.
std::int32_t columns(const ShapeCase& shape, std::int32_t ranks) {
  return is_dp(shape) ? slice_rows(shape) * ranks : shape.hidden;
}

bool reduces_and_scatters(const ShapeCase& shape) {
  return !shape.workload.ends_with(":backward") && shape.workload != "tpsp/ag_gemm" &&
         shape.workload != "tpsp/qkv" && shape.workload != "tpsp/layer" &&
         shape.workload != "dp/zero3" && shape.workload != "dp/zero1" &&
         shape.workload != "dp/ddp" && !shape.workload.starts_with("ulysses/");
}

ImplementationCase sliced(std::string_view axis, std::int32_t parts) {
  return {fmt::format("sliced:n={}:axis={}", parts, axis),
          axis == "tokens" ? Cut::tokens : Cut::features, parts};
}

ImplementationCase commfuse(std::string_view order, std::int32_t parts,
                            std::string_view accumulate) {
  return {fmt::format("commfuse:order={}:m={}:accumulate={}", order, parts, accumulate),
          Cut::tokens, parts};
}

ImplementationFamily every_sliced() {
  ImplementationFamily family{"sliced", {}};
  for (const std::string_view axis : {"tokens", "features"}) {
    for (const std::int32_t parts : {2, 3, 4}) family.members.push_back(sliced(axis, parts));
  }
  return family;
}

ImplementationFamily every_commfuse() {
  ImplementationFamily family{"commfuse", {}};
  for (const std::int32_t parts : {1, 2, 4}) {
    for (const std::string_view accumulate : {"epilogue", "add"}) {
      family.members.push_back(commfuse("ring", parts, accumulate));
    }
    for (const std::string_view accumulate : {"add", "once"}) {
      family.members.push_back(commfuse("direct", parts, accumulate));
    }
  }
  return family;
}

}  // namespace

std::span<const ShapeCase> shape_cases() { return kShapeCases; }

Shape shape_of(const ShapeCase& shape, std::int32_t ranks, DType dtype) {
  return {.hidden = shape.hidden * (is_dp(shape) ? ranks : 1),
          .ffn = shape.ffn * ranks,
          .heads = shape.heads * ranks,
          .kv_heads = shape.kv_heads * (shape.shared_kv_heads ? 1 : ranks),
          .head_dim = shape.head_dim,
          .layers = shape.layers,
          .activation = shape.activation,
          .causal = shape.causal,
          .tokens = shape.rows * ranks,
          .dtype = dtype,
          .gradient = shape.narrow_gradients ? dtype : DType::f32,
          .bucket = shape.bucket_maps * shape.hidden * shape.ffn * ranks * ranks * 4};
}

std::span<const ImplementationFamily> implementation_families() {
  static const std::array families{
      ImplementationFamily{"plain", {{"plain", Cut::nothing, 1}}},
      ImplementationFamily{"bulk", {{"bulk", Cut::nothing, 1}}},
      every_sliced(),
      every_commfuse(),
      ImplementationFamily{"compute_only", {{"compute_only", Cut::nothing, 1}}},
      ImplementationFamily{"comm_only", {{"comm_only", Cut::nothing, 1}}},
  };
  return families;
}

bool divides(const ImplementationCase& implementation, const ShapeCase& shape, std::int32_t ranks) {
  switch (implementation.cut) {
    case Cut::nothing:
      return true;
    case Cut::tokens:  // whole zigzag pairs under a causal mask
      return slice_rows(shape) % (implementation.parts * (shape.causal ? 2 : 1)) == 0;
    case Cut::features:  // of what a reduce-scatter sends
      return reduces_and_scatters(shape) && columns(shape, ranks) % implementation.parts == 0;
  }
  return false;
}

}  // namespace commfuse
