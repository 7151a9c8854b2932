// SPDX-License-Identifier: Apache-2.0
// Traced iterations end to end: the executor and its tracer on the fakes. What is laid out is held
// against the plan, and what goes wrong against the reason that is given.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "harness/cuda/op_marks.h"
#include "harness/cuda/trace_timeline.h"
#include "harness/program.h"
#include "impls/implementation.h"
#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_run.h"
#include "tests/fakecuda/fake_cupti.h"

namespace commfuse::fake {
namespace {

using testing::HasSubstr;

constexpr std::int32_t kIterations = 3;
constexpr std::int32_t kAll = 1 << 20;  // more than any run records

struct TraceCase {
  BackendRun run;
  std::string_view shape = "gemm_rs_even";
  std::string implementation = "commfuse:order=direct";
};

struct RankTrace {
  std::string no_tracer;  // why there is none
  std::vector<TracedIteration> iterations;
  std::string mismatch;  // of the results, after all iterations
  std::unique_ptr<Program> program;
};

struct TracedRanks {
  Verdict verdict;
  std::vector<RankTrace> ranks;
};

const ShapeCase& shape_named(std::string_view name) {
  return *std::ranges::find(shape_cases(), name, &ShapeCase::name);
}

void trace_rank(const TraceCase& test, World& world, CuptiTracer* tracer, RankTrace& traced) {
  const Workload workload = workload_of(shape_named(test.shape), world.ranks(), DType::bf16);
  const Implementation implementation = make_implementation(test.implementation, workload);
  const bool one_process = test.run.setting == Setting::ce_one_card;
  const auto executor = make_executor(test.run, world, workload, {tracer, one_process});
  const Plan plan = build_plan(implementation, workload, world.rank());
  traced.program = std::make_unique<Program>(plan);
  const PlanHandle handle = executor->prepare(plan);
  load_inputs(*executor, handle, workload, world.rank(), implementation.portion);
  std::vector<Timeline> untraced(1);
  executor->run(handle, Mode::isolated, untraced);
  traced.iterations = executor->trace(handle, kIterations);
  executor->run(handle, Mode::isolated, untraced);
  traced.mismatch =
      first_mismatch(*executor, handle, workload, world.rank(), implementation.portion);
}

/// Ranks that stand for processes have a tracer each, but for `without`; threads share the one of
/// the first.
TracedRanks trace(const TraceCase& test, FakeCuptiOptions options = {}, std::size_t without = ~0U) {
  const bool one_process = test.run.setting == Setting::ce_one_card;
  options.process_per_rank = !one_process;
  const FakeCupti cupti(options);
  TracedRanks traced;
  traced.ranks.resize(static_cast<std::size_t>(test.run.ranks));
  std::vector<std::unique_ptr<CuptiTracer>> tracers(traced.ranks.size());
  traced.verdict = run_backend(test.run, [&](World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    if (rank != without && (rank == 0 || !one_process)) {
      tracers[rank] =
          CuptiTracer::start(CuptiLibrary(FakeCupti::functions()), traced.ranks[rank].no_tracer);
    }
    world.barrier();
    CuptiTracer* const tracer = tracers[one_process ? 0 : rank].get();
    trace_rank(test, world, tracer, traced.ranks[rank]);
  });
  return traced;
}

bool timed(const Span& span) { return span.begin_ns > 0; }

/// Compute ops in order, and everything after what it depends on and inside the window.
void expect_in_order(const Program& program, const Timeline& timeline) {
  const auto span_of = [&](commfuse::EventId id) { return timeline.spans[program.event(id).span]; };
  std::int64_t compute_ns = timeline.start_ns;
  for (const commfuse::EventId id : program.compute_lane()) {
    const Span span = span_of(id);
    EXPECT_GE(span.begin_ns, compute_ns) << "op " << id;
    compute_ns = span.end_ns;
  }
  for (commfuse::EventId id = 0; id < program.events().size(); ++id) {
    if (program.event(id).kind == EventKind::none || !timed(span_of(id))) continue;
    EXPECT_GE(span_of(id).begin_ns, timeline.start_ns) << "event " << id;
    EXPECT_GT(span_of(id).end_ns, span_of(id).begin_ns) << "event " << id;
    EXPECT_LE(span_of(id).end_ns, timeline.end_ns) << "event " << id;
    for (const commfuse::EventId before : program.dependencies(id)) {
      EXPECT_LE(span_of(before).end_ns, span_of(id).begin_ns) << before << " before " << id;
    }
  }
}

template <class Kind>
std::int64_t count_ops(const Plan& plan) {
  return std::ranges::count_if(
      plan.ops, [](const commfuse::Op& op) { return std::holds_alternative<Kind>(op.work); });
}

/// Copy engines push, one span for each send; NCCL has one for each exchange.
std::int64_t expected_transfers(const Program& program, Setting setting) {
  const Plan& plan = program.plan();
  if (setting == Setting::nccl) return count_ops<Exchange>(plan);
  return std::ranges::count(plan.messages, true, &Message::send);
}

void expect_transfers(const Program& program, Setting setting, const Timeline& timeline) {
  const auto count = [&](SpanKind kind) {
    return std::ranges::count_if(
        timeline.spans, [&](const Span& span) { return span.kind == kind && timed(span); });
  };
  EXPECT_EQ(count(SpanKind::transfer), expected_transfers(program, setting));
  EXPECT_EQ(count(SpanKind::collective), count_ops<Collective>(program.plan()));
  EXPECT_GT(count(SpanKind::transfer) + count(SpanKind::collective), 0);
}

/// Of all ranks, in one iteration: what a rank pushes arrives within its peer's window.
void expect_arrivals_inside(const TracedRanks& traced, std::size_t iteration) {
  for (const RankTrace& sender : traced.ranks) {
    for (const Span& span : sender.iterations[iteration].timeline.spans) {
      if (span.message < 0 || !span.send) continue;
      const auto message = static_cast<std::size_t>(span.message);
      const auto peer = static_cast<std::size_t>(sender.program->plan().messages[message].peer);
      EXPECT_LE(span.end_ns, traced.ranks[peer].iterations[iteration].timeline.end_ns)
          << "message " << message << " to rank " << peer;
    }
  }
}

void expect_counts(const TraceCase& test, const TracedRanks& traced) {
  ASSERT_TRUE(traced.verdict.ok()) << traced.verdict.message;
  for (const RankTrace& rank : traced.ranks) {
    EXPECT_EQ(rank.mismatch, "");
    EXPECT_EQ(rank.no_tracer, "");
    ASSERT_EQ(rank.iterations.size(), std::size_t{kIterations});
    for (const TracedIteration& iteration : rank.iterations) {
      ASSERT_EQ(iteration.reason, "");
      EXPECT_EQ(iteration.by_copy_engine, test.run.setting != Setting::nccl);
      EXPECT_EQ(iteration.unattributed, 0);
      expect_in_order(*rank.program, iteration.timeline);
      expect_transfers(*rank.program, test.run.setting, iteration.timeline);
    }
  }
  for (std::size_t i = 0; i < std::size_t{kIterations}; ++i) expect_arrivals_inside(traced, i);
}

class TracedPlans : public testing::TestWithParam<
                        std::tuple<Setting, std::int32_t, std::string_view, std::string>> {};

TEST_P(TracedPlans, AreLaidOutAsThePlanHasThem) {
  const auto& [setting, ranks, shape, implementation] = GetParam();
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const TraceCase test{{setting, ranks, seed}, shape, implementation};
    expect_counts(test, trace(test));
  }
}

std::string name_of_case(const testing::TestParamInfo<TracedPlans::ParamType>& info) {
  const auto& [setting, ranks, shape, implementation] = info.param;
  std::string name = fmt::format("{}_on_{}_{}_{}", name_of(setting), ranks, shape, implementation);
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    All, TracedPlans,
    testing::Combine(testing::Values(Setting::nccl, Setting::ce_ipc, Setting::ce_one_card),
                     testing::Values(2, 4), testing::Values("gemm_rs_even", "mlp_relu_even"),
                     testing::Values("plain", "sliced:n=2", "commfuse:order=direct",
                                     "commfuse:order=ring", "comm_only")),
    name_of_case);

// NCCL's copy engines leave copies, in any number and side by side; its kernels are none.
TEST(TraceRun, CollectivesByCopyEngineAreTransfersOfCopyEngines) {
  for (const std::string_view way : {"copy_engine", "symmetric"}) {
    const TraceCase test{
        {Setting::nccl, 4, 1}, "ag_gemm_even", fmt::format("plain:collective={}", way)};
    const TracedRanks traced = trace(test);
    ASSERT_TRUE(traced.verdict.ok()) << traced.verdict.message;
    for (const RankTrace& rank : traced.ranks) {
      EXPECT_EQ(rank.mismatch, "");
      ASSERT_EQ(rank.iterations.size(), std::size_t{kIterations});
      for (const TracedIteration& iteration : rank.iterations) {
        EXPECT_EQ(iteration.reason, "");
        EXPECT_EQ(iteration.by_copy_engine, way == "copy_engine");
        EXPECT_EQ(iteration.unattributed, 0);
        expect_in_order(*rank.program, iteration.timeline);
        expect_transfers(*rank.program, test.run.setting, iteration.timeline);
      }
    }
  }
}

/// Nothing of this rank is under way any more, but something for it.
TEST(TraceRun, WindowsLastUntilWhatOthersPushHasArrived) {
  const Workload workload = workload_of(shape_named("gemm_rs_even"), 2, DType::bf16);
  const Program program(build_plan(make_implementation("commfuse", workload), workload, 0));
  DeviceTrace trace;
  trace.work.push_back({event_trace_id(0, program.compute_lane().front()), WorkKind::compute, {}});
  trace.work.front().activity.begin_ns = 20;
  trace.work.front().activity.end_ns = 30;
  const auto window_end = [&](std::int64_t arrived_ns) {
    Timeline timeline{0, 10, arrived_ns, {program.spans().begin(), program.spans().end()}};
    lay_out(trace, program, timeline);
    return timeline.end_ns;
  };
  EXPECT_EQ(window_end(40), 40);
  EXPECT_EQ(window_end(29), 30);
}

constexpr std::array kSettings{Setting::nccl, Setting::ce_ipc, Setting::ce_one_card};

/// No traced iteration counts, for this reason, and the results are right all the same.
void expect_reason(const FakeCuptiOptions& options, const char* part) {
  for (const Setting setting : kSettings) {
    SCOPED_TRACE(name_of(setting));
    const TracedRanks traced = trace({{setting, 2, 1}}, options);
    ASSERT_TRUE(traced.verdict.ok()) << traced.verdict.message;
    for (const RankTrace& rank : traced.ranks) {
      EXPECT_EQ(rank.mismatch, "");
      ASSERT_EQ(rank.iterations.size(), std::size_t{kIterations});
      for (const TracedIteration& iteration : rank.iterations) {
        EXPECT_THAT(iteration.reason, HasSubstr(part));
        EXPECT_FALSE(iteration.by_copy_engine);
      }
    }
  }
}

TEST(TraceRun, DoesNotCountWithDroppedRecords) {
  FakeCuptiOptions options;
  options.dropped = kAll;
  expect_reason(options, "records were dropped");
}

TEST(TraceRun, DoesNotCountWhereTheDroppedCountIsUnknown) {
  FakeCuptiOptions options;
  options.dropped_count_unreadable = true;
  expect_reason(options, "not known whether records were dropped");
}

TEST(TraceRun, DoesNotCountWithRecordsWithoutATime) {
  FakeCuptiOptions options;
  options.zero_time = kAll;
  expect_reason(options, "records have no time");
}

TEST(TraceRun, DoesNotCountWithReversedRecords) {
  FakeCuptiOptions options;
  options.reversed = kAll;
  expect_reason(options, "records end before they begin");
}

TEST(TraceRun, WhatTheFirstIterationLostHurtsNoneThatIsGivenOut) {
  for (const Setting setting : kSettings) {
    FakeCuptiOptions options;
    options.dropped = options.zero_time = options.reversed = 1;
    const TraceCase test{{setting, 2, 2}};
    expect_counts(test, trace(test, options));
  }
}

TEST(TraceRun, CopiesByMultiprocessorsAreNotOnesByCopyEngine) {
  FakeCuptiOptions options;
  options.copies_use_multiprocessors = true;
  for (const Setting setting : {Setting::ce_ipc, Setting::ce_one_card}) {
    const TracedRanks traced = trace({{setting, 4, 3}}, options);
    ASSERT_TRUE(traced.verdict.ok()) << traced.verdict.message;
    for (const RankTrace& rank : traced.ranks) {
      ASSERT_EQ(rank.iterations.size(), std::size_t{kIterations});
      for (const TracedIteration& iteration : rank.iterations) {
        EXPECT_EQ(iteration.reason, "");
        EXPECT_FALSE(iteration.by_copy_engine);
      }
    }
  }
}

TEST(TraceRun, ThereIsNoTracerBesideAnotherClient) {
  FakeCuptiOptions options;
  options.other_client = true;
  for (const Setting setting : kSettings) {
    const TracedRanks traced = trace({{setting, 2, 4}}, options);
    ASSERT_TRUE(traced.verdict.ok()) << traced.verdict.message;
    EXPECT_THAT(traced.ranks[0].no_tracer, HasSubstr("another profiler is attached"));
    for (const RankTrace& rank : traced.ranks) {
      EXPECT_TRUE(rank.iterations.empty());
      EXPECT_EQ(rank.mismatch, "");
    }
  }
}

// As where one node lacks CUPTI: what it records by itself explains no iteration of all.
TEST(TraceRun, WithoutATracerOnOneRankNobodyTraces) {
  for (const Setting setting : {Setting::nccl, Setting::ce_ipc}) {
    const TracedRanks traced = trace({{setting, 3, 4}}, {}, 1);
    ASSERT_TRUE(traced.verdict.ok()) << traced.verdict.message;
    for (const RankTrace& rank : traced.ranks) {
      EXPECT_TRUE(rank.iterations.empty());
      EXPECT_EQ(rank.mismatch, "");
    }
  }
}

}  // namespace
}  // namespace commfuse::fake
