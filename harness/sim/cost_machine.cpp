// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/cost_machine.h"

#include <fmt/format.h>

#include <cctype>
#include <string>

#include "harness/sim/collective_fit.h"
#include "harness/sim/cost_file.h"
#include "suite/error.h"

namespace commfuse {
namespace {

/// The name of the file in words that an id can hold: "costs:h100-bf16".
std::string name_in_ids(const std::filesystem::path& path) {
  std::string name = path.stem().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  }
  return "costs:" + name;
}

std::string source_of(const CostFile& file, const std::filesystem::path& path) {
  const std::string host = file.machine.value("host", "?");
  const std::string device = file.machine.contains("gpu") ? file.machine.value("gpu", "?")
                                                          : file.machine.value("cpu", "?");
  return fmt::format("ops: {} of {}, recorded on {} ({}) at {} by commit {}",
                     path.filename().string(), file.clock, host, device, file.time, file.commit);
}

/// The rate of a step stays that of the machine's link.
void fit_steps(const OpCosts& costs, const std::filesystem::path& path, MachineModel& model) {
  try {
    for (const CollectiveKind kind : kCollectiveKinds) {
      const auto fit = fit_collectives(kind, costs);
      if (!fit) continue;
      model.network.step_latency_seconds[static_cast<std::size_t>(kind)] =
          fit->step.latency_seconds;
      model.step_sources.push_back("latency of collectives: " + describe(kind, *fit));
    }
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace

MachineModel machine_with_costs(std::string_view machine, const std::filesystem::path& costs) {
  MachineModel model;
  model.network.algorithm = CollectiveAlgorithm::pairwise;
  if (!machine.empty()) model = find_machine(machine);
  CostFile file = read_costs(costs);
  model.sources.push_back(source_of(file, costs));
  fit_steps(file.costs, costs, model);
  model.name += (model.name.empty() ? "" : ",") + name_in_ids(costs);
  auto table = std::make_shared<CostTable>(costs.filename().string(), std::move(file.costs));
  model.peak_flops_per_second.fill(table->best_gemm_flops_per_second());
  model.peak_name = "best recorded gemm";
  model.compute = std::move(table);
  return model;
}

}  // namespace commfuse
