// SPDX-License-Identifier: Apache-2.0
#include "impls/transform.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "impls/explain.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

bool communicates(const Op& op) {
  return std::holds_alternative<Exchange>(op.work) || std::holds_alternative<Collective>(op.work);
}

/// A plan's inputs, then what its communication writes, in order.
std::vector<View> with_received(const Plan& plan) {
  std::vector<View> views = plan.inputs;
  for (const Op& op : plan.ops) {
    if (!communicates(op)) continue;
    for (const Access& access : accesses(plan, op)) {
      if (access.write) views.push_back(access.view);
    }
  }
  return views;
}

TEST(WithoutCommunication, KeepsTheComputeInOrder) {
  const Workload workload = small_workload("tpsp/mlp", 4, 8);
  for (const std::string_view spec : every_implementation()) {
    for (const Plan& plan : plans_of(spec, workload)) {
      const Plan quiet = without_communication(plan);
      std::vector<std::string> expected;
      for (OpId id = 0; id < plan.ops.size(); ++id) {
        if (!communicates(plan.ops[id])) expected.push_back(describe(plan, id));
      }
      std::vector<std::string> found;
      for (OpId id = 0; id < quiet.ops.size(); ++id) found.push_back(describe(quiet, id));
      EXPECT_EQ(found, expected) << spec;
      EXPECT_TRUE(quiet.messages.empty());
      EXPECT_TRUE(quiet.dependencies.empty()) << "compute ops share a lane";
      EXPECT_FALSE(quiet.communicates);
      EXPECT_EQ(quiet.rank, plan.rank);
      EXPECT_EQ(quiet.portion, plan.portion);
      EXPECT_EQ(quiet.tensors.size(), plan.tensors.size());
      EXPECT_EQ(quiet.inputs, with_received(plan));
      EXPECT_EQ(quiet.outputs, plan.outputs);
    }
  }
}

/// A plan by hand with compute on two lanes:
///   compute  0: copy        3: copy (after message #1)
///   gather   1: exchange (#0 send, after 0; #1 receive)   2: exchange (#2 receive, after #1)
///   scatter  4: copy (after #2)   5: copy (after 3)
class TwoLanes : public testing::Test {
 protected:
  TwoLanes() {
    plan_.tensors = {{"a", 8, 4, DType::f32}};
    plan_.workload_tensors = 1;
    plan_.ranks = 2;
    add(Copy{}, Lane::compute, {});
    plan_.messages.resize(3);
    plan_.messages[0].send = true;
    add(Exchange{0, 2}, Lane::gather, {{0, kWholeOp}});
    plan_.messages[0].dependencies = 1;
    add(Exchange{2, 1}, Lane::gather, {{1, 1}});
    plan_.messages[2].first_dependency = 1;
    plan_.messages[2].dependencies = 1;
    add(Copy{}, Lane::compute, {{1, 1}});
    add(Copy{}, Lane::scatter, {{2, 2}});
    add(Copy{}, Lane::scatter, {{3, kWholeOp}});
  }

  void add(const Work& work, Lane lane, const std::vector<Dependency>& dependencies) {
    plan_.ops.push_back({work, lane, 0, static_cast<std::uint32_t>(plan_.dependencies.size()),
                         static_cast<std::uint32_t>(dependencies.size())});
    plan_.dependencies.insert(plan_.dependencies.end(), dependencies.begin(), dependencies.end());
  }
  static std::vector<Dependency> waits(const Plan& plan, OpId op) {
    const auto found = plan.dependencies_of(plan.ops.at(op));
    return {found.begin(), found.end()};
  }

  Plan plan_;
};

TEST_F(TwoLanes, DependenciesThroughMessagesAreContracted) {
  const Plan quiet = without_communication(plan_);
  ASSERT_EQ(quiet.ops.size(), 4U);  // 0, 3, 4, 5 of the original
  EXPECT_TRUE(waits(quiet, 0).empty());
  EXPECT_TRUE(waits(quiet, 1).empty());
  // Message #2 came in behind an exchange that had waited for op 0.
  EXPECT_EQ(waits(quiet, 2), (std::vector<Dependency>{{0, kWholeOp}}));
  EXPECT_EQ(waits(quiet, 3), (std::vector<Dependency>{{1, kWholeOp}}));
}

TEST_F(TwoLanes, WhatOnlyAReceiveBroughtIsNoDependency) {
  plan_.ops[2].dependencies = 0;
  plan_.messages[2].dependencies = 0;
  plan_.ops[1].dependencies = 0;
  plan_.messages[0].dependencies = 0;
  const Plan quiet = without_communication(plan_);
  EXPECT_TRUE(waits(quiet, 2).empty());
  EXPECT_EQ(waits(quiet, 3), (std::vector<Dependency>{{1, kWholeOp}}));
}

}  // namespace
}  // namespace commfuse
