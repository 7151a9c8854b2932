// SPDX-License-Identifier: Apache-2.0
// Who measures, who executes and what comes out, on executors whose ops take stated times.
#include "harness/sim/replay_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "harness/plan_spans.h"
#include "harness/record/metrics.h"
#include "harness/world/thread_world.h"
#include "impls/transform.h"
#include "tests/sim/simulated.h"

namespace commfuse {
namespace {

using testing::ElementsAre;

constexpr LinkSpeed kReplayedLink{100e9, 2e-6};

/// Of an op of a quiet plan in the n-th run that measures.
std::int64_t stated_ns(std::int32_t rank, OpId op, std::int64_t n) {
  return 100'000 * (rank + 1) + 10'000 * std::int64_t{op % 7} + 1000 * n;
}

/// Notes which kind of plan it ran. Its wall times are twice the CPU time, or all that is known.
class StatedExecutor final : public Executor {
 public:
  StatedExecutor(std::int32_t rank, std::vector<std::string>& calls, bool knows_cpu_time)
      : rank_(rank), calls_(calls), knows_cpu_time_(knows_cpu_time) {}
  PlanHandle prepare(const Plan& plan) override {
    plans_.push_back(plan);
    return plans_.size() - 1;
  }
  PlanHandle prepare_quiet(const Plan& plan, PlanHandle /*origin*/) override {
    return prepare(plan);
  }
  void write(PlanHandle, const View&, std::span<const float>) override {}
  void read(PlanHandle, const View&, std::span<float>) override {}
  void poison(PlanHandle) override {}
  void weights_written() override {}
  void set_link(const LinkSpeed& link) override { EXPECT_EQ(link.bytes_per_second, 0); }
  void report_to(Watchdog&) override {}
  void run(PlanHandle handle, Mode mode, std::span<Timeline> timelines) override {
    EXPECT_EQ(mode, Mode::isolated);
    const Plan& plan = plans_.at(handle);
    calls_.emplace_back(plan.communicates ? "run" : plan.ops.empty() ? "idle" : "quiet");
    Timeline& timeline = timelines.front();
    timeline.spans = untimed_spans(plan);
    if (calls_.back() != "quiet") return;
    for (Span& span : timeline.spans) {
      const std::int64_t time_ns = stated_ns(rank_, span.op, measured_);
      span.end_ns = knows_cpu_time_ ? 2 * time_ns : time_ns;
      if (knows_cpu_time_) span.cpu_ns = time_ns;
    }
    ++measured_;
  }

 private:
  std::int32_t rank_;
  std::vector<std::string>& calls_;
  bool knows_cpu_time_;
  std::vector<Plan> plans_;
  std::int64_t measured_ = 0;
};

/// A rank with one plan and its quiet twin.
struct Replaying {
  Replaying(World& world, std::string_view implementation, OpTiming timing)
      : Replaying(world, world, implementation, timing) {}
  Replaying(World& world, World& active, std::string_view implementation, OpTiming timing)
      : workload(large_workload("tpsp/gemm_rs", world.ranks())),
        plan(build_plan(make_implementation(implementation, workload), workload, world.rank())),
        executor(
            world, active,
            std::make_unique<StatedExecutor>(world.rank(), calls, timing == OpTiming::together),
            timing, Protocol::put),
        run_handle(executor.prepare(plan)),
        quiet_handle(executor.prepare_quiet(without_communication(plan), run_handle)) {
    executor.set_link(kReplayedLink);
  }

  Timeline once(PlanHandle handle) {
    std::vector<Timeline> timelines(1);
    executor.run(handle, Mode::isolated, timelines);
    return timelines.front();
  }
  Timeline run() { return once(run_handle); }
  Timeline quiet() { return once(quiet_handle); }
  /// What was run since the last call.
  std::vector<std::string> take_calls() { return std::exchange(calls, {}); }

  Workload workload;
  Plan plan;
  std::vector<std::string> calls;
  ReplayExecutor executor;
  PlanHandle run_handle, quiet_handle;
};

/// With the times of the n-th measurement of every rank.
Timeline simulated_timeline(const Replaying& rank, std::string_view implementation,
                            std::int64_t n) {
  Network network;
  network.inner = kReplayedLink;
  network.algorithm = CollectiveAlgorithm::pairwise;
  Simulation simulation(network, Protocol::put);
  const Implementation made = make_implementation(implementation, rank.workload);
  for (std::int32_t r = 0; r < rank.workload.ranks; ++r) {
    const Plan plan = build_plan(made, rank.workload, r);
    std::vector<Picoseconds> times(plan.ops.size(), 0);
    OpId of_quiet = 0;
    for (OpId op = 0; op < plan.ops.size(); ++op) {
      if (compute_of(plan.ops[op])) times[op] = 1000 * stated_ns(r, of_quiet++, n);
    }
    simulation.add(plan, r, times);
  }
  simulation.run();
  return simulation.timeline(static_cast<std::size_t>(rank.plan.rank));
}

void expect_same_times(const Timeline& timeline, const Timeline& expected) {
  EXPECT_EQ(timeline.rank, expected.rank);
  EXPECT_EQ(timeline.start_ns, 0);
  EXPECT_EQ(timeline.end_ns, expected.end_ns);
  ASSERT_EQ(timeline.spans.size(), expected.spans.size());
  for (std::size_t i = 0; i < expected.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    EXPECT_EQ(span.begin_ns, expected.spans[i].begin_ns) << i;
    EXPECT_EQ(span.end_ns, expected.spans[i].end_ns) << i;
    EXPECT_EQ(span.op, expected.spans[i].op) << i;
    EXPECT_EQ(span.message, expected.spans[i].message) << i;
    EXPECT_EQ(span.bytes, expected.spans[i].bytes) << i;
    const bool computes = span.kind != SpanKind::transfer && span.kind != SpanKind::collective;
    EXPECT_EQ(span.cpu_ns, computes ? span.end_ns - span.begin_ns : -1) << i;
  }
}

class EveryTiming : public testing::TestWithParam<OpTiming> {};

TEST_P(EveryTiming, TimelinesAreThoseOfTheEngine) {
  for (const char* implementation : {"plain", "sliced:n=4", "commfuse", "commfuse:order=direct"}) {
    run_thread_ranks(8, [&](World& world) {
      Replaying rank(world, implementation, GetParam());
      expect_same_times(rank.run(), simulated_timeline(rank, implementation, 0));
      expect_same_times(rank.run(), simulated_timeline(rank, implementation, 1));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Replay, EveryTiming,
                         testing::Values(OpTiming::together, OpTiming::in_turn));

TEST(Replay, WhoeverOfAPlanAndItsTwinComesFirstMeasuresForBoth) {
  run_thread_ranks(3, [](World& world) {
    Replaying rank(world, "plain", OpTiming::together);
    rank.run();
    rank.quiet();
    rank.take_calls();
    for (const bool quiet_first : {false, true, true, false, false}) {
      const Timeline first = quiet_first ? rank.quiet() : rank.run();
      const Timeline second = quiet_first ? rank.run() : rank.quiet();
      EXPECT_THAT(rank.take_calls(), ElementsAre("quiet"));
      EXPECT_EQ(summarize(first).busy, summarize(second).busy);
      EXPECT_FALSE(summarize(first).preempted());
    }
    rank.quiet();
    rank.quiet();
    EXPECT_THAT(rank.take_calls(), ElementsAre("quiet", "quiet"));
  });
}

TEST(Replay, ContentionIsZeroAndTheTwinHasNoGaps) {
  run_thread_ranks(4, [](World& world) {
    Replaying rank(world, "commfuse:accumulate=add:m=1", OpTiming::together);
    const IterationSummary run = summarize(rank.run());
    const IterationSummary quiet = summarize(rank.quiet());
    const Waterfall losses =
        waterfall(std::span(&quiet, 1), std::span(&quiet, 1), std::span(&run, 1));
    EXPECT_EQ(losses.contention, 0);
    EXPECT_EQ(quiet.gap(), 0);
    EXPECT_EQ(run.window, quiet.window + run.gap());
  });
}

TEST(Replay, NewDataIsComputedWithAndOldTimesAreStale) {
  run_thread_ranks(2, [](World& world) {
    Replaying rank(world, "plain", OpTiming::together);
    const View view = whole(0, rank.plan.tensors[0]);
    const std::vector<std::function<void()>> ways{
        [&] { rank.executor.poison(rank.run_handle); },
        [&] { rank.executor.write(rank.run_handle, view, {}); },
        [&] { rank.executor.weights_written(); },
        [&] {  // one rank has data of its own
          if (world.rank() == 1) rank.executor.write(rank.run_handle, view, {});
        }};
    for (const auto& write : ways) {
      rank.quiet();  // whose times nobody is to take
      write();
      rank.take_calls();
      rank.run();
      // The twin needs what is received, and leaves no answer.
      EXPECT_THAT(rank.take_calls(), ElementsAre("run", "quiet", "run"));
      rank.quiet();
      EXPECT_THAT(rank.take_calls(), ElementsAre());
      rank.run();
      EXPECT_THAT(rank.take_calls(), ElementsAre("quiet"));
      write();
      rank.quiet();
      EXPECT_THAT(rank.take_calls(), ElementsAre("run", "quiet"));
    }
  });
}

TEST(Replay, RanksThatDisturbEachOtherTakeTurns) {
  run_thread_ranks(3, [](World& world) {
    Replaying rank(world, "plain", OpTiming::in_turn);
    rank.quiet();
    rank.take_calls();
    rank.quiet();
    std::vector<std::string> turns(3, "idle");
    turns[static_cast<std::size_t>(world.rank())] = "quiet";
    EXPECT_EQ(rank.take_calls(), turns);
  });
}

TEST(Replay, RanksOfAllGroupsTakeTurns) {
  run_thread_ranks(4, [](World& active) {
    const std::unique_ptr<World> group = active.split(active.rank() % 2);
    Replaying rank(*group, active, "plain", OpTiming::in_turn);
    rank.quiet();
    rank.take_calls();
    rank.quiet();
    std::vector<std::string> turns(4, "idle");
    turns[static_cast<std::size_t>(active.rank())] = "quiet";
    EXPECT_EQ(rank.take_calls(), turns);
  });
}

TEST(Replay, WithoutALimitAMessageTakesNoTime) {
  run_thread_ranks(2, [](World& world) {
    Replaying rank(world, "plain", OpTiming::together);
    rank.executor.set_link({});
    for (const Span& span : rank.run().spans) {
      if (span.kind != SpanKind::collective) continue;
      EXPECT_EQ(span.begin_ns, span.end_ns);
    }
  });
}

TEST(Replay, TakesSingleIterationsAndTwinsOnly) {
  run_thread_ranks(2, [](World& world) {
    Replaying rank(world, "plain", OpTiming::together);
    std::vector<Timeline> two(2);
    EXPECT_THROW(rank.executor.run(rank.run_handle, Mode::steady, two), std::invalid_argument);
    EXPECT_THROW(rank.executor.run(rank.run_handle, Mode::isolated, two), std::invalid_argument);
    EXPECT_THROW(rank.executor.prepare_quiet(rank.plan, rank.run_handle), std::invalid_argument);
    EXPECT_EQ(rank.executor.facts().at("replay"), "put");
  });
}

}  // namespace
}  // namespace commfuse
