// SPDX-License-Identifier: Apache-2.0
#include "tests/suite/small_cases.h"

#include <fmt/format.h>

#include <algorithm>
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
    if (unsupported(entry_of(workload), shape, ranks).empty()) {
      cases.push_back({workload, shape, ranks});
    }
  }
}

void add_attention(std::vector<SmallCase>& cases, const std::string& workload, Shape shape) {
  for (const bool causal : {false, true}) {
    for (const std::int32_t kv_heads : {1, 2, 4, 12}) {
      if (kv_heads < 4 && workload != "tpsp/attention") continue;  // which alone replicates them
      shape.causal = causal;
      shape.kv_heads = kv_heads;
      add_if_it_fits(cases, workload, shape);
    }
  }
}

/// Hidden is cut as well; few tokens, since every rank has its own.
void add_layers(std::vector<SmallCase>& cases, const std::string& workload, Shape shape) {
  shape.hidden = 36;
  shape.tokens = 16;
  for (const std::int32_t layers : {1, 2}) {
    shape.layers = layers;
    add_if_it_fits(cases, workload, shape);
  }
  if (!entry_of(workload).reduces_gradients) return;
  shape.bucket = 2 * shape.hidden * shape.ffn * 4;
  shape.layers = 3;  // in two buckets; slices lie across two maps
  cases.push_back({workload, shape, 3});
  shape.bucket = 0;
  shape.layers = 1;
  shape.gradient = shape.dtype;
  add_if_it_fits(cases, workload, shape);
}

bool is_layer(const CaseGroup& group) { return group.workload.find("/layer") != std::string::npos; }

/// Attention of projections is not one-hot, gradients of one-hot attention are 0 but for weights
/// that are too small to see, and Adam divides.
bool is_exact(const CaseGroup& group) {
  return !group.workload.starts_with("ulysses/block") && !is_layer(group) &&
         group.workload != "ulysses/attention:backward" && group.workload != "dp/zero1";
}

std::vector<SmallCase> cases_of(const CaseGroup& group) {
  std::vector<SmallCase> cases;
  if (group.workload.starts_with("tpsp/attention") || group.workload.starts_with("ulysses/") ||
      is_layer(group)) {
    add_attention(cases, group.workload, small_shape(group.dtype));
  } else if (group.workload.starts_with("dp/")) {
    add_layers(cases, group.workload, small_shape(group.dtype));
  } else {
    add_if_it_fits(cases, group.workload, small_shape(group.dtype));
  }
  return cases;
}

}  // namespace

Workload SmallCase::build() const {
  const WorkloadEntry& entry = entry_of(workload);
  if (const std::string reason = unsupported(entry, shape, ranks); !reason.empty()) {
    throw std::logic_error(reason);
  }
  return entry.build(shape, ranks);
}

std::vector<CaseGroup> case_groups() {
  std::vector<CaseGroup> groups;
  for (const DType dtype : kDTypes) {
    for (const WorkloadEntry& entry : workloads()) {
      groups.push_back({selector_of(entry), dtype});
    }
  }
  return groups;
}

std::vector<SmallCase> exact_cases(const CaseGroup& group) {
  return is_exact(group) ? cases_of(group) : std::vector<SmallCase>{};
}

std::vector<SmallCase> bounded_cases(const CaseGroup& group) {
  std::vector<SmallCase> cases = cases_of(group);
  if (!group.workload.starts_with("tpsp/mlp") && !is_layer(group)) return cases;
  Shape shape = small_shape(group.dtype);
  for (const Activation activation : {Activation::gelu, Activation::swiglu}) {
    shape.activation = activation;
    add_if_it_fits(cases, group.workload, shape);
  }
  return cases;
}

std::string name_of(const SmallCase& small) {
  const Shape& shape = small.shape;
  return fmt::format("{} {} {} kv_heads={} layers={} bucket={} {} gradients={} ranks={}",
                     small.workload, name_of(shape.activation), shape.causal ? "causal" : "full",
                     shape.kv_heads, shape.layers, shape.bucket, name_of(shape.dtype),
                     name_of(shape.gradient), small.ranks);
}

std::string name_of(const CaseGroup& group) {
  std::string name = fmt::format("{}_{}", group.workload, name_of(group.dtype));
  std::ranges::replace(name, '/', '_');
  std::ranges::replace(name, ':', '_');
  return name;
}

}  // namespace commfuse
