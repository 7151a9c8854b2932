// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulated.h"

namespace commfuse {

Workload large_workload(std::string_view name, std::int32_t ranks, std::int32_t tokens) {
  Shape shape = preset("llama3-70b");
  shape.tokens = tokens;
  shape.dtype = DType::bf16;
  return find_workloads(name).front()->build(shape, ranks);
}

MachineModel fast_machine() { return ideal_machine("ideal:flops=700T,link=400GB/s,latency=3us"); }

Simulation simulated(const Workload& workload, std::string_view implementation,
                     const MachineModel& machine, Protocol protocol) {
  Simulation simulation(machine.network, protocol);
  const Implementation made = make_implementation(implementation, workload);
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    const Plan plan = build_plan(made, workload, rank);
    simulation.add(plan, rank, op_times(*machine.compute, plan));
  }
  simulation.run();
  return simulation;
}

}  // namespace commfuse
