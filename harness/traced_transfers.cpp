// SPDX-License-Identifier: Apache-2.0
#include "harness/traced_transfers.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "harness/check.h"
#include "harness/world/wire.h"
#include "impls/implementation.h"

namespace commfuse {
namespace {

constexpr std::int32_t kIterations = 3;
constexpr const char* kImplementation = "commfuse:m=1:accumulate=add";

/// This rank's iterations under the profiler.
std::vector<TracedIteration> trace(Backend& backend, World& world, const CaseGroup& cases) {
  const Workload workload = cases.workload->build(cases.shape, world.ranks());
  const Plan plan =
      build_plan(make_implementation(kImplementation, workload), workload, world.rank());
  const std::unique_ptr<Executor> executor = backend.executor(world, workload, cases.transport);
  const PlanHandle handle = executor->prepare(plan);
  const Source source{.seed = 1, .mode = DataMode::exact};
  load_weights(*executor, handle, workload, world, source);
  load_inputs(*executor, handle, workload, plan.portion, world, source);
  return executor->trace(handle, kIterations);
}

}  // namespace

SelfTestPart trace_transfers(Backend& backend, World& world, const CaseGroup& cases) {
  using State = SelfTestPart::State;
  SelfTestPart part;
  part.name = fmt::format("traced transfers over {}", cases.transport);
  std::vector<TracedIteration> iterations;
  try {
    iterations = trace(backend, world, cases);
  } catch (const Unsupported& error) {
    return {part.name, error.what(), State::missing};
  }
  std::string reason;
  std::int64_t counting = 0;
  std::int64_t by_copy_engine = 0;
  for (const TracedIteration& iteration : iterations) {
    if (reason.empty()) reason = iteration.reason;
    if (!iteration.reason.empty()) continue;
    ++counting;
    if (iteration.by_copy_engine) ++by_copy_engine;
  }
  const std::int64_t all = world.sum(static_cast<std::int64_t>(iterations.size()));
  counting = world.sum(counting);
  by_copy_engine = world.sum(by_copy_engine);
  reason = first_text(world, reason);
  if (all == 0)
    return {part.name, "nobody saw them: there is no profiler, or it cannot see replays of graphs",
            State::missing};
  if (counting == 0) return {part.name, "no trace counts: " + reason, State::missing};
  part.text = fmt::format("{} of {} traces of all ranks count; copy engines made all copies in {}",
                          counting, all, by_copy_engine);
  if (counting < all) part.text += fmt::format("; one that does not: {}", reason);
  return part;
}

}  // namespace commfuse
