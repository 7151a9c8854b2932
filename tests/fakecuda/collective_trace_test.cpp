// SPDX-License-Identifier: Apache-2.0
// Each kind of collective in traced iterations: a trace counts only if what it has of each op is as
// much as the transport announced.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/conformance/collective_cases.h"
#include "tests/fakecuda/backend_run.h"
#include "tests/fakecuda/fake_cupti.h"

namespace commfuse::fake {
namespace {

using TracedCase = std::tuple<Setting, CollectiveKind, std::int32_t>;

class TracedCollectives : public testing::TestWithParam<TracedCase> {};

/// Two traced iterations of a rank.
std::vector<TracedIteration> trace(const BackendRun& run, const CollectiveCase& what, World& world,
                                   CuptiTracer* tracer) {
  const Workload workload = workload_of(what, world.ranks());
  const bool one_process = run.setting == Setting::ce_one_card;
  const auto executor = make_executor(run, world, workload, {tracer, one_process});
  const PlanHandle handle = executor->prepare(plan_of(what, workload, world.rank()));
  executor->poison(handle);
  for (TensorId id = 0; id < workload.tensors.size(); ++id) {
    const std::vector<float> ones(static_cast<std::size_t>(workload.tensors[id].elements()), 1.0F);
    executor->write(handle, whole(id, workload.tensors[id]), ones);
  }
  executor->weights_written();
  return executor->trace(handle, 2);
}

TEST_P(TracedCollectives, Count) {
  const auto& [setting, kind, rows] = GetParam();
  const BackendRun run{setting, 3, 5};
  const bool one_process = setting == Setting::ce_one_card;
  FakeCuptiOptions options;
  options.process_per_rank = !one_process;
  const FakeCupti cupti(options);
  std::vector<std::unique_ptr<CuptiTracer>> tracers(3);
  std::vector<std::vector<TracedIteration>> traced(3);
  const CollectiveCase what{.kind = kind, .rows = rows};
  const Verdict verdict = run_backend(run, [&](World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    std::string no_tracer;
    if (rank == 0 || !one_process) {
      tracers[rank] = CuptiTracer::start(CuptiLibrary(FakeCupti::functions()), no_tracer);
    }
    EXPECT_EQ(no_tracer, "");
    world.barrier();
    traced[rank] = trace(run, what, world, tracers[one_process ? 0 : rank].get());
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  for (const std::vector<TracedIteration>& iterations : traced) {
    ASSERT_EQ(iterations.size(), 2U);
    for (const TracedIteration& iteration : iterations) {
      EXPECT_EQ(iteration.reason, "");
      const auto& spans = iteration.timeline.spans;
      const auto span = std::ranges::find(spans, SpanKind::collective, &Span::kind);
      ASSERT_NE(span, spans.end());
      EXPECT_GT(span->end_ns, span->begin_ns);
    }
  }
}

std::string name_of_traced(const testing::TestParamInfo<TracedCase>& info) {
  const auto& [setting, kind, rows] = info.param;
  return fmt::format("{}_over_{}{}", name_of(kind), name_of(setting), rows > 0 ? "_uneven" : "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, TracedCollectives,
                         testing::Combine(testing::Values(Setting::nccl, Setting::ce_ipc,
                                                          Setting::ce_one_card),
                                          testing::ValuesIn(kCollectiveKinds), testing::Values(0)),
                         name_of_traced);
INSTANTIATE_TEST_SUITE_P(Uneven, TracedCollectives,
                         testing::Combine(testing::Values(Setting::nccl, Setting::ce_ipc),
                                          testing::Values(CollectiveKind::all_reduce),
                                          testing::Values(1)),
                         name_of_traced);

}  // namespace
}  // namespace commfuse::fake
