// SPDX-License-Identifier: Apache-2.0
#include "impls/implementation.h"

#include <gtest/gtest.h>

#include <set>

#include "suite/error.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

std::string error_of(std::string_view spec) {
  try {
    validate_implementation(spec);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string name_for(std::string_view spec, std::string_view workload) {
  return make_implementation(spec, small_workload(workload, 2, 8)).name;
}

TEST(Implementation, TableNamesAreUnique) {
  std::set<std::string_view> names;
  for (const ImplementationEntry& entry : implementations()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(error_of(entry.name), "");
    EXPECT_FALSE(entry.description.empty());
  }
}

/// What the other tests of this folder loop over.
TEST(Implementation, EveryOneIsTested) {
  std::set<std::string_view> listed;
  for (const ImplementationEntry& entry : implementations()) listed.insert(entry.name);
  std::set<std::string_view> tested;
  for (const std::string_view spec : every_implementation()) {
    tested.insert(spec.substr(0, spec.find(':')));
  }
  EXPECT_EQ(tested, listed);
}

TEST(Implementation, UnknownNamesListTheValidOnes) {
  EXPECT_EQ(error_of("comfuse"),
            "unknown implementation 'comfuse'; valid: plain, sliced, bulk, commfuse, "
            "compute_only, comm_only");
  EXPECT_EQ(error_of(""),
            "unknown implementation ''; valid: plain, sliced, bulk, commfuse, compute_only, "
            "comm_only");
}

TEST(Implementation, UnknownParametersListTheValidOnes) {
  EXPECT_EQ(error_of("sliced:k=4"),
            "sliced: unknown parameter 'k'; valid: n=<parts>, axis=tokens|features");
  EXPECT_EQ(error_of("bulk:n=4"), "bulk takes no parameters, got 'n'");
  EXPECT_EQ(error_of("plain:collective=fast"),
            "plain: unknown collective 'fast'; valid: default, registered, symmetric, copy_engine");
  EXPECT_EQ(error_of("commfuse:order=tree"), "commfuse: unknown order 'tree'; valid: ring, direct");
  EXPECT_EQ(error_of("commfuse:ring"), "commfuse: expected parameter=value, got 'ring'");
  EXPECT_EQ(error_of("commfuse:"), "commfuse: expected parameter=value, got ''");
  EXPECT_EQ(error_of("sliced:n=2:n=4"), "sliced: parameter 'n' is given twice");
}

TEST(Implementation, CountsArePositive) {
  for (const std::string_view spec : {"sliced:n=0", "sliced:n=-1", "sliced:n=", "sliced:n=x",
                                      "sliced:n=99999999999", "commfuse:m=1.5"}) {
    const std::string error = error_of(spec);
    EXPECT_FALSE(error.empty()) << spec;
    EXPECT_NE(error.find(spec.substr(0, spec.find('='))), std::string::npos) << error;
  }
}

TEST(Implementation, OrdersTakeTheAccumulationsThatTheyCanDo) {
  EXPECT_EQ(error_of("commfuse:order=direct:accumulate=epilogue"),
            "commfuse: order=direct keeps the received partials, so accumulate is add or once, "
            "not epilogue");
  EXPECT_EQ(error_of("commfuse:accumulate=once"),
            "commfuse: order=ring adds a partial at every hop, so accumulate is epilogue or add, "
            "not once");
}

TEST(Implementation, NamesAreResolvedForTheWorkload) {
  EXPECT_EQ(name_for("commfuse", "tpsp/mlp"), "commfuse:order=ring:m=2:accumulate=epilogue");
  EXPECT_EQ(name_for("commfuse", "tpsp/ag_gemm"), "commfuse:order=ring:m=1");
  EXPECT_EQ(name_for("commfuse:accumulate=add", "tpsp/ag_gemm"), "commfuse:order=ring:m=1");
  EXPECT_EQ(name_for("commfuse:accumulate=add", "tpsp/gemm_rs"),
            "commfuse:order=ring:m=1:accumulate=add");
  EXPECT_EQ(name_for("commfuse:order=direct", "tpsp/gemm_rs"),
            "commfuse:order=direct:m=1:accumulate=once");
  EXPECT_EQ(name_for("commfuse:m=1", "tpsp/gemm_rs"),
            "commfuse:order=ring:m=1:accumulate=epilogue");
  EXPECT_EQ(name_for("sliced", "tpsp/gemm_rs"), "sliced:n=4:axis=tokens");
  EXPECT_EQ(name_for("sliced:axis=features:n=2", "tpsp/gemm_rs"), "sliced:n=2:axis=features");
  EXPECT_EQ(name_for("sliced:n=1", "tpsp/gemm_rs"), "bulk");
  EXPECT_EQ(name_for("bulk", "tpsp/gemm_rs"), "bulk");
  EXPECT_EQ(name_for("plain:collective=default", "tpsp/gemm_rs"), "plain");
  EXPECT_EQ(name_for("plain:collective=symmetric", "tpsp/gemm_rs"), "plain:collective=symmetric");
}

TEST(Implementation, ResolvedNamesAreReadBackToThemselves) {
  for (const WorkloadEntry& entry : workloads()) {
    for (const std::string_view spec : every_implementation()) {
      const std::string resolved = name_for(spec, entry.name);
      EXPECT_EQ(name_for(resolved, entry.name), resolved);
    }
  }
}

TEST(Implementation, SaysWhyAWorkloadCannotBeCut) {
  const auto reason = [](std::string_view spec, std::string_view workload, std::int32_t rows) {
    const Workload small = small_workload(workload, 2, rows);
    return unsupported(make_implementation(spec, small), small);
  };
  EXPECT_EQ(reason("sliced:n=4", "tpsp/mlp", 6), "needs rows per rank divisible by n (4), got 6");
  EXPECT_EQ(reason("commfuse", "tpsp/mlp", 5), "needs rows per rank divisible by m (2), got 5");
  EXPECT_EQ(reason("sliced:n=2000000000", "tpsp/mlp", 6),
            "needs rows per rank divisible by n (2000000000), got 6");
  EXPECT_EQ(reason("sliced:n=3:axis=features", "tpsp/mlp", 5),
            "needs columns of result divisible by n (3), got 8");
  EXPECT_EQ(reason("sliced:n=2:axis=features", "tpsp/ag_gemm", 4),
            "axis=features cuts what a reduce-scatter sends, and ag_gemm has none");
  Shape large = parse_shape("hidden=4096,ffn=64");
  large.tokens = 1 << 20;
  const Workload many_rows = find_workloads("tpsp/gemm_rs").front()->build(large, 2);
  const auto features = [&](std::string_view spec) {
    return unsupported(make_implementation(spec, many_rows), many_rows);
  };
  EXPECT_EQ(features("sliced:n=1024:axis=features"), "");
  EXPECT_EQ(features("sliced:n=2048:axis=features"),
            "needs rows of partial x n below 2^31, got 1048576 x 2048");
  for (const std::string_view spec :
       {"plain", "bulk", "compute_only", "comm_only", "commfuse:m=1", "sliced:n=2:axis=features"}) {
    EXPECT_EQ(reason(spec, "tpsp/gemm_rs", 5), "") << spec;
  }
}

}  // namespace
}  // namespace commfuse
