// SPDX-License-Identifier: Apache-2.0
#include "tests/impls/small_workloads.h"

#include <gtest/gtest.h>

#include "impls/explain.h"

namespace commfuse {

Workload small_workload(std::string_view name, std::int32_t ranks, std::int32_t rows) {
  Shape shape;
  const bool cuts_features = name.starts_with("dp/");
  shape.hidden = cuts_features ? rows * ranks : 8;
  shape.ffn = (cuts_features ? rows : 6) * ranks;
  shape.heads = ranks;
  shape.kv_heads = ranks;
  shape.head_dim = 4;
  shape.activation = Activation::relu;
  shape.causal = false;
  shape.tokens = (cuts_features ? 6 : rows) * ranks;
  const WorkloadEntry& entry = *find_workloads(name).front();
  EXPECT_EQ(entry.unsupported(shape, ranks), "");
  return entry.build(shape, ranks);
}

std::vector<Plan> plans_of(std::string_view implementation, const Workload& workload) {
  const Implementation made = make_implementation(implementation, workload);
  EXPECT_EQ(unsupported(made, workload), "") << implementation << ", " << workload.name;
  return build_plans(made, workload);
}

std::string plan_text(std::string_view implementation, const Workload& workload,
                      std::int32_t rank) {
  const std::vector<Plan> plans = plans_of(implementation, workload);
  return "\n" + explain_text(plans[static_cast<std::size_t>(rank)], workload);
}

const std::vector<std::string_view>& every_implementation() {
  static const std::vector<std::string_view> specs{
      "plain",
      "plain:collective=symmetric",
      "bulk",
      "sliced:n=2",
      "sliced:n=4:axis=tokens",
      "sliced:n=2:axis=features",
      "sliced:n=4:axis=features",
      "commfuse",
      "commfuse:m=1",
      "commfuse:m=4",
      "commfuse:m=1:accumulate=add",
      "commfuse:m=2:accumulate=add",
      "commfuse:order=direct",
      "commfuse:order=direct:m=2",
      "commfuse:order=direct:m=2:accumulate=add",
      "compute_only",
      "comm_only",
  };
  return specs;
}

}  // namespace commfuse
