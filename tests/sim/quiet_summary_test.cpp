// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/quiet_summary.h"

#include <gtest/gtest.h>

#include "harness/sim/simulation.h"
#include "impls/transform.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

std::vector<Picoseconds> odd_times(const Plan& plan) {
  std::vector<Picoseconds> times;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    times.push_back(static_cast<Picoseconds>((i * 7919 + 13) % 10'007));
  }
  return times;
}

/// Without communication nobody is waited for, so the other ranks may be left out.
IterationSummary simulated_alone(const Plan& plan, const std::vector<Picoseconds>& times) {
  Plan quiet = without_communication(plan);
  quiet.rank = 0;
  quiet.ranks = 1;
  std::vector<Picoseconds> kept;
  for (OpId op = 0; op < plan.ops.size(); ++op) {
    if (compute_of(plan.ops[op])) kept.push_back(times[op]);
  }
  Simulation simulation(Network{}, Protocol::put);
  simulation.add(quiet, 0, kept);
  simulation.run();
  return summarize(simulation.timeline(0));
}

void expect_equal(const IterationSummary& a, const IterationSummary& b) {
  EXPECT_EQ(a.window, b.window);
  EXPECT_EQ(a.busy, b.busy);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.elementwise, b.elementwise);
  EXPECT_EQ(a.overhead, b.overhead);
  EXPECT_EQ(a.gap_head, b.gap_head);
  EXPECT_EQ(a.gap_interior, b.gap_interior);
  EXPECT_EQ(a.gap_tail, b.gap_tail);
  EXPECT_EQ(a.tail_span, b.tail_span);
  EXPECT_EQ(a.transfer, 0);
  EXPECT_EQ(a.bytes_moved, 0);
}

TEST(QuietSummary, IsThatOfTheSimulatedPlanWithoutItsCommunication) {
  for (const WorkloadEntry& entry : workloads()) {
    const Workload workload = small_workload(selector_of(entry), 3, 8);
    for (const std::string_view spec : every_implementation()) {
      const Implementation implementation = make_implementation(spec, workload);
      if (!unsupported(implementation, workload).empty()) continue;
      SCOPED_TRACE(selector_of(entry) + " " + implementation.name);
      for (const std::int32_t rank : {0, 2}) {
        const Plan plan = build_plan(implementation, workload, rank);
        const std::vector<Picoseconds> times = odd_times(plan);
        expect_equal(quiet_summary(plan, times), simulated_alone(plan, times));
      }
    }
  }
}

}  // namespace
}  // namespace commfuse
