// SPDX-License-Identifier: Apache-2.0
// The two engines beside each other where no link is shared: on one node, for workloads whose
// schedules send on one lane at a time.
#include "harness/sim/simgrid_engine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/sim/tuning.h"
#include "suite/error.h"
#include "tests/sim/simulated.h"

namespace commfuse {
namespace {

constexpr std::int32_t kPlaces = 64;

Workload workload_for(std::string_view name, std::int32_t ranks) {
  Shape shape = parse_shape("hidden=12288,ffn=36864,heads=192,kv_heads=192,causal=false");
  shape.tokens = 24576;
  shape.dtype = DType::bf16;
  return find_workloads(name).front()->build(shape, ranks);
}

/// SimGrid has one engine per process.
SimGridEngine& flat_simgrid() {
  static SimGridEngine engine(fast_machine().network, kPlaces);
  return engine;
}

Simulation in_simgrid(const Workload& workload, std::string_view implementation,
                      const MachineModel& machine, SimGridEngine& engine) {
  Simulation simulation(machine.network, Protocol::put);
  const Implementation made = make_implementation(implementation, workload);
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    const Plan plan = build_plan(made, workload, rank);
    simulation.add(plan, rank, op_times(*machine.compute, plan));
  }
  simulation.run([&](EventGraph& graph, const Network&) { return engine.run(graph); });
  return simulation;
}

/// Bounds, and every schedule with every setting up to 4 parts.
std::vector<std::string> specs_for(const Workload& workload) {
  std::vector<std::string> specs{"compute_only", "comm_only"};
  std::ranges::copy(tuning_specs(workload, 4), std::back_inserter(specs));
  return specs;
}

class EnginesAgree : public testing::TestWithParam<std::int32_t> {};

TEST_P(EnginesAgree, WhereNoLinkIsShared) {
  const std::int32_t ranks = GetParam();
  const MachineModel machine = fast_machine();
  std::size_t cases = 0;
  double largest = 0;
  for (const char* name : {"tpsp/gemm_rs", "tpsp/ag_gemm", "ulysses/qkv", "ulysses/attention"}) {
    const Shape shape = workload_for("tpsp/gemm_rs", 2).shape;
    if (!unsupported(*find_workloads(name).front(), shape, ranks).empty()) continue;
    const Workload workload = workload_for(name, ranks);
    for (const std::string& spec : specs_for(workload)) {
      const Simulation port = simulated(workload, spec, machine);
      const Simulation simgrid = in_simgrid(workload, spec, machine, flat_simgrid());
      for (std::size_t rank = 0; rank < port.ranks(); ++rank) {
        const auto expected = static_cast<double>(port.end(rank));
        const double difference = std::abs(static_cast<double>(simgrid.end(rank)) / expected - 1);
        EXPECT_LT(difference, 1e-3)
            << fmt::format("{}, {}, rank {} of {}: {} ps, and {} in SimGrid", name, spec, rank,
                           ranks, port.end(rank), simgrid.end(rank));
        largest = std::max(largest, difference);
      }
      EXPECT_EQ(port.events(), simgrid.events());
      ++cases;
    }
  }
  fmt::print("simgrid: {} cases at {} ranks, largest difference {:.1e}\n", cases, ranks, largest);
  EXPECT_GT(cases, 0U);
}

/// 4,000,000 bytes, which take 10 us, and 3 us until they are there.
View block_of(std::int32_t row) { return {.tensor = 0, .row = row, .rows = 1, .cols = 1'000'000}; }

/// Rank 0 sends to the two others, on two lanes at once.
Plan two_lanes(std::int32_t rank) {
  Workload workload;
  workload.ranks = 3;
  workload.tensors = {{"blocks", 2, 1'000'000, DType::f32}};
  PlanBuilder builder(workload, rank);
  for (const auto& [lane, to] : {std::pair(Lane::gather, 1), std::pair(Lane::scatter, 2)}) {
    if (rank != 0 && rank != to) continue;
    const PlanBuilder::Transfer transfer{rank == 0, rank == 0 ? to : 0, block_of(to - 1)};
    builder.exchange(lane, std::span(&transfer, 1));
  }
  return builder.take({}, {});
}

TEST(SimGridEngine, LinksThatAreSharedHaveFairShares) {
  const MachineModel machine = fast_machine();
  Simulation ports(machine.network, Protocol::put);
  Simulation shares(machine.network, Protocol::put);
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    const Plan plan = two_lanes(rank);
    const std::vector<Picoseconds> none(plan.ops.size(), 0);
    ports.add(plan, rank, none);
    shares.add(plan, rank, none);
  }
  ports.run();
  shares.run([](EventGraph& graph, const Network&) { return flat_simgrid().run(graph); });
  EXPECT_EQ(ports.end(1), 13'000'000);
  EXPECT_EQ(ports.end(2), 23'000'000);
  EXPECT_EQ(shares.end(1), 23'000'000);
  EXPECT_EQ(shares.end(2), 23'000'000);
}

TEST(SimGridEngine, KnowsPutOnlyAndItsOwnPlaces) {
  Simulation joint(fast_machine().network, Protocol::joint);
  joint.add(two_lanes(0), 0, std::vector<Picoseconds>(2, 0));
  joint.add(two_lanes(1), 1, std::vector<Picoseconds>(1, 0));
  joint.add(two_lanes(2), 2, std::vector<Picoseconds>(1, 0));
  const auto run = [](EventGraph& graph, const Network&) { return flat_simgrid().run(graph); };
  EXPECT_THROW(joint.run(run), std::invalid_argument);
  Simulation far(fast_machine().network, Protocol::put);
  far.add(two_lanes(0), kPlaces, std::vector<Picoseconds>(2, 0));
  far.add(two_lanes(1), 1, std::vector<Picoseconds>(1, 0));
  far.add(two_lanes(2), 2, std::vector<Picoseconds>(1, 0));
  EXPECT_THROW(far.run(run), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EnginesAgree, testing::Values(2, 3, 4, 8, 16, 64),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace commfuse
