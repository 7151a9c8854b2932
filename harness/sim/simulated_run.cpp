// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/simulated_run.h"

#include <algorithm>
#include <vector>

#include "harness/sim/in_order.h"
#include "harness/sim/quiet_summary.h"
#include "harness/sim/simulation.h"

namespace commfuse {
namespace {

/// What comes of one rank before it is added.
struct MadeRank {
  Plan plan;
  std::vector<Picoseconds> times;
  IterationSummary quiet;
  PlanFacts facts;
};

}  // namespace

std::int64_t SimulatedRun::longest_window() const {
  std::int64_t longest = 0;
  for (const IterationSummary& rank : run) longest = std::max(longest, rank.window);
  return longest;
}

SimulatedRun simulate(const SimulatedSetting& setting, const Implementation& implementation) {
  const std::vector<std::int32_t> ranks = ranks_by_group(setting.mesh);
  const auto group_ranks = static_cast<std::size_t>(setting.mesh.group_ranks());
  const auto make = [&](std::size_t i) {
    const auto rank_of_group = static_cast<std::int32_t>(i % group_ranks);
    MadeRank made{build_plan(implementation, setting.workload, rank_of_group), {}, {}, {}};
    // Every group has the plans of the first one.
    if (i < group_ranks) made.facts = verify_alone(made.plan, setting.workload);
    made.times = op_times(*setting.machine.compute, made.plan);
    made.quiet = quiet_summary(made.plan, made.times);
    return made;
  };

  SimulatedRun result;
  result.run.resize(ranks.size());
  result.quiet.resize(ranks.size());
  Simulation simulation(setting.machine.network, setting.protocol);
  make_in_order(ranks.size(), setting.threads, make, [&](std::size_t i, const MadeRank& made) {
    if (i == 0) result.facts = made.facts;
    result.quiet[static_cast<std::size_t>(ranks[i])] = made.quiet;
    simulation.add(made.plan, ranks[i], made.times);
  });
  simulation.run();
  result.wall_s = simulation.engine_seconds();
  result.events = simulation.events();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    result.run[static_cast<std::size_t>(ranks[i])] = summarize(simulation.timeline(i));
  }
  return result;
}

std::int64_t simulation_bytes(const Plan& plan, std::int64_t ranks) {
  const std::size_t nodes = plan.ops.size() + plan.messages.size();
  const std::size_t edges = plan.dependencies.size() + 2 * nodes;
  const std::size_t bytes = nodes * (sizeof(EventNode) + sizeof(Span)) +
                            edges * sizeof(EventGraph::Edge) + plan.messages.size() * 16;
  return static_cast<std::int64_t>(bytes) * ranks;
}

}  // namespace commfuse
