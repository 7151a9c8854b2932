// SPDX-License-Identifier: Apache-2.0
#include "tests/suite/small_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace commfuse {
namespace {

/// 24 tokens, 12 heads and 48 features are divisible by 1, 2, 3 and 4 ranks; heads of 8 columns
/// hold the 5 code columns of 24 positions.
Shape small_shape(DType dtype) {
  return {.hidden = 40,
          .ffn = 48,
          .heads = 12,
          .kv_heads = 12,
          .head_dim = 8,
          .activation = Activation::relu,
          .causal = true,
          .tokens = 24,
          .dtype = dtype};
}

const WorkloadEntry& entry_of(const std::string& name) { return *find_workloads(name).front(); }

void add_if_it_fits(std::vector<SmallCase>& cases, const std::string& workload,
                    const Shape& shape) {
  for (std::int32_t ranks = 1; ranks <= 4; ++ranks) {
    if (entry_of(workload).unsupported(shape, ranks).empty()) {
      cases.push_back({workload, shape, ranks});
    }
  }
}

void add_attention(std::vector<SmallCase>& cases, Shape shape) {
  for (const bool causal : {false, true}) {
    for (const std::int32_t kv_heads : {1, 2, 4, 12}) {
      shape.causal = causal;
      shape.kv_heads = kv_heads;
      add_if_it_fits(cases, "tpsp/attention", shape);
    }
  }
}

}  // namespace

Workload SmallCase::build() const {
  const WorkloadEntry& entry = entry_of(workload);
  if (const std::string reason = entry.unsupported(shape, ranks); !reason.empty()) {
    throw std::logic_error(reason);
  }
  return entry.build(shape, ranks);
}

std::vector<SmallCase> exact_cases() {
  std::vector<SmallCase> cases;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const char* name : {"tpsp/ag_gemm", "tpsp/gemm_rs", "tpsp/mlp", "tpsp/mlp_rs"}) {
      add_if_it_fits(cases, name, small_shape(dtype));
    }
    add_attention(cases, small_shape(dtype));
  }
  return cases;
}

std::vector<SmallCase> bounded_cases() {
  std::vector<SmallCase> cases;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Shape shape = small_shape(dtype);
    for (const char* name : {"tpsp/ag_gemm", "tpsp/gemm_rs"}) add_if_it_fits(cases, name, shape);
    for (const Activation activation : {Activation::relu, Activation::gelu, Activation::swiglu}) {
      shape.activation = activation;
      add_if_it_fits(cases, "tpsp/mlp", shape);
      add_if_it_fits(cases, "tpsp/mlp_rs", shape);
    }
    add_attention(cases, shape);
  }
  return cases;
}

std::string name_of(const SmallCase& small) {
  const Shape& shape = small.shape;
  std::string name = fmt::format("{}_{}_{}_kv{}_{}_{}", small.workload.substr(5),
                                 name_of(shape.activation), shape.causal ? "causal" : "full",
                                 shape.kv_heads, name_of(shape.dtype), small.ranks);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace commfuse
