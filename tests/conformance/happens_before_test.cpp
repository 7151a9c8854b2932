// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/happens_before.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace commfuse {
namespace {

using Transfer = PlanBuilder::Transfer;

View row(TensorId id, std::int32_t index) {
  return {.tensor = id, .row = index, .rows = 1, .cols = 4};
}

/// Two ranks: compute row 0 of a, send it, receive into row 1, copy that to b.
std::vector<Plan> plans() {
  Workload workload;
  workload.ranks = 2;
  workload.tensors = {{"a", 4, 4, DType::f32}, {"b", 4, 4, DType::f32}};
  std::vector<Plan> made;
  for (const std::int32_t rank : {0, 1}) {
    PlanBuilder builder(workload, rank);
    builder.compute(Copy{row(0, 0), row(1, 3)});
    builder.exchange(Lane::scatter, std::array{Transfer{true, 1 - rank, row(0, 0)},
                                               Transfer{false, 1 - rank, row(0, 1)}});
    builder.compute(Copy{row(1, 0), row(0, 1)});
    made.push_back(builder.take({}, {}));
  }
  return made;
}

TEST(hazard, is_none_in_a_sound_plan) { EXPECT_EQ(hazard(plans()), ""); }

TEST(hazard, is_a_race_without_a_dependency) {
  std::vector<Plan> damaged = plans();
  damaged[1].ops[2].dependencies = 0;
  EXPECT_NE(hazard(damaged).find("nothing orders rank 1 op 1"), std::string::npos);
  damaged = plans();
  damaged[0].messages[0].dependencies = 0;  // its group still waits, an executor need not
  EXPECT_NE(hazard(damaged).find("nothing orders rank 0 op 0"), std::string::npos);
}

TEST(hazard, is_a_message_without_partner) {
  std::vector<Plan> damaged = plans();
  damaged[0].messages[1].sequence = 1;
  EXPECT_NE(hazard(damaged).find("has no partner"), std::string::npos);
}

TEST(hazard, is_a_circle) {
  std::vector<Plan> damaged = plans();
  // The exchange waits for the copy of what it receives.
  damaged[0].dependencies[damaged[0].ops[1].first_dependency] = {2, kWholeOp};
  EXPECT_EQ(hazard(damaged), "the events wait for each other in a circle");
}

}  // namespace
}  // namespace commfuse
