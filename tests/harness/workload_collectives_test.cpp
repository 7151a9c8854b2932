// SPDX-License-Identifier: Apache-2.0
#include "harness/workload_collectives.h"

#include <gtest/gtest.h>

#include "harness/record/metrics.h"

namespace commfuse {
namespace {

TEST(WorkloadCollectives, AreThoseOfItsStagesWithTheirWholeArrays) {
  Workload workload;
  workload.ranks = 4;
  workload.tensors = {{"gathered", 8, 3, DType::f32},  {"partial", 8, 5, DType::bf16},
                      {"result", 2, 5, DType::bf16},   {"sent", 16, 7, DType::f32},
                      {"received", 16, 7, DType::f32}, {"addend", 4, 9, DType::f16},
                      {"sum", 4, 9, DType::f16}};
  workload.stages.resize(3);
  workload.stages[0].gather = Gather{0};
  workload.stages[0].reduce_scatter = ReduceScatter{1, 2};
  workload.stages[1].all_to_all = AllToAll{3, 4};
  workload.stages[2].all_reduce = AllReduce{5, 6};
  const std::vector<CollectiveBytes> found = collectives_of(workload);
  ASSERT_EQ(found.size(), 4U);
  const CollectiveBytes expected[] = {{"all_gather", 8 * 3 * 4},
                                      {"reduce_scatter", 8 * 5 * 2},
                                      {"all_to_all", 16 * 7 * 4},
                                      {"all_reduce", 4 * 9 * 2}};
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].name, expected[i].name);
    EXPECT_EQ(found[i].array_bytes, expected[i].array_bytes);
    EXPECT_GT(busbw_factor(found[i].name, workload.ranks), 0);
  }
}

}  // namespace
}  // namespace commfuse
