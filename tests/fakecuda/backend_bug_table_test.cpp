// SPDX-License-Identifier: Apache-2.0
// Counts which bugs are found in the backend itself, of 20 seeds: no finding as it is, and every
// bug with every seed. CommFuse of one gemm with a reduce-scatter: a right iteration, then three
// back to back whose calls go wrong.
//
// Swapping exchanges needs two that no compute op lies between: parts of one slice (m=2), or of
// two lanes, which a reduce-scatter alone has not; that row runs an MLP.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "impls/implementation.h"
#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_fault.h"
#include "tests/fakecuda/backend_run.h"
#include "tests/fakecuda/seeds.h"

namespace commfuse::fake {
namespace {

constexpr std::array kRanks{2, 3, 4, 8};

/// How a run ended: with a finding of the machine, or with a wrong result.
enum class Found : std::uint8_t { nothing, race, deadlock, mismatch, freed, wrong, other };

struct Row {
  CallBug bug;
  Found found;
  const char* name;
};

constexpr std::array kEverywhere{
    Row{CallBug::none, Found::nothing, "none"},
    Row{CallBug::no_event_wait, Found::race, "no event wait between GEMM and transfer"},
    Row{CallBug::event_recorded_early, Found::race, "event recorded before its GEMM"},
    Row{CallBug::event_waited_early, Found::race, "event waited for before it is recorded"},
    Row{CallBug::block_overwritten, Found::race, "no event wait between transfer and GEMM"},
};

constexpr std::array kCopyEngines{
    Row{CallBug::flag_before_copy, Found::race, "flag written before the copy"},
    Row{CallBug::no_flag_wait, Found::race, "no flag wait"},
    Row{CallBug::flag_wait_low, Found::race, "flag wait one epoch low"},
    Row{CallBug::no_credit_wait, Found::race, "no credit wait"},
    Row{CallBug::credit_wait_low, Found::race, "credit wait one epoch low"},
    Row{CallBug::credit_before_read, Found::race, "credit written before the read"},
    Row{CallBug::epochs_restarted, Found::race, "epochs restarted for a second measurement"},
    Row{CallBug::no_credit_written, Found::deadlock, "no credit written"},
    Row{CallBug::flag_in_wrong_slot, Found::deadlock, "flag in the wrong slot"},
};

constexpr std::array kNccl{
    Row{CallBug::ungrouped, Found::deadlock, "ungrouped send and receive"},
    Row{CallBug::unequal_counts, Found::mismatch, "unequal counts"},
    // Their messages have equal sizes: they meet, and the blocks change places.
    Row{CallBug::exchanges_reversed, Found::wrong, "one rank's exchanges reversed"},
    Row{CallBug::lanes_reversed, Found::deadlock, "two communicators in opposite order"},
};

constexpr std::array kWindows{
    Row{CallBug::none, Found::nothing, "none"},
    Row{CallBug::freed_registered, Found::freed, "freed before it is deregistered"},
};

std::string_view name_of(Found found) {
  static constexpr std::array<std::string_view, 7> kNames{"-",     "race",  "deadlock", "mismatch",
                                                          "freed", "wrong", "other"};
  return kNames[static_cast<std::size_t>(found)];
}

Found kind_of(const Verdict& verdict, bool wrong) {
  switch (verdict.kind) {
    case Verdict::Kind::ok:
      return wrong ? Found::wrong : Found::nothing;
    case Verdict::Kind::race:
      return Found::race;
    case Verdict::Kind::deadlock:
      return Found::deadlock;
    case Verdict::Kind::mismatch:
      return Found::mismatch;
    case Verdict::Kind::use_after_free:
      return Found::freed;
    default:
      return Found::other;
  }
}

struct Outcome {
  Found found = Found::nothing;
  std::string message;
  std::int64_t hits = 0;
};

Outcome run_with(CallBug bug, std::string_view implementation_name, const BackendRun& run) {
  const auto shape = std::ranges::find(
      shape_cases(), bug == CallBug::lanes_reversed ? "mlp_relu_even" : "gemm_rs_even",
      &ShapeCase::name);
  const Workload workload = workload_of(*shape, run.ranks, DType::bf16);
  const Implementation implementation = make_implementation(implementation_name, workload);
  BackendFault fault(bug);
  std::string mismatch;
  const Verdict verdict = run_backend(run, [&](World& world) {
    const auto executor = make_executor(run, world, workload);
    const PlanHandle plan = executor->prepare(build_plan(implementation, workload, world.rank()));
    load_inputs(*executor, plan, workload, world.rank(), implementation.portion);
    fault.learn();
    std::vector<Timeline> timelines(1);
    executor->run(plan, Mode::isolated, timelines);
    fault.start();
    timelines.resize(3);
    executor->run(plan, Mode::steady, timelines);
    const std::string own =
        first_mismatch(*executor, plan, workload, world.rank(), implementation.portion);
    if (mismatch.empty()) mismatch = own;
  });
  return {kind_of(verdict, !mismatch.empty()), verdict.message + mismatch, fault.hits()};
}

/// In how many of the seeds the run ended as the row says.
std::uint64_t count(const Row& row, std::string_view implementation, Setting setting,
                    std::int32_t ranks) {
  std::uint64_t found = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = run_with(row.bug, implementation, {setting, ranks, seed});
    EXPECT_EQ(outcome.hits > 0, row.bug != CallBug::none) << row.name;
    if (outcome.found == row.found) {
      ++found;
    } else {
      ADD_FAILURE() << row.name << ", " << ranks << " ranks, seed " << seed << ": "
                    << name_of(outcome.found) << " " << outcome.message;
    }
  }
  return found;
}

void count_all(std::span<const Row> rows, std::string_view implementation, Setting setting) {
  for (const Row& row : rows) {
    fmt::print("{:<44}{:>10}", row.name, name_of(row.found));
    for (const std::int32_t ranks : kRanks) {
      const std::uint64_t found = count(row, implementation, setting, ranks);
      fmt::print("{:>7}", row.bug == CallBug::none ? kSeeds - found : found);
      EXPECT_EQ(found, kSeeds) << row.name << ", " << ranks << " ranks";
    }
    fmt::print("\n");
  }
}

void print_heading(std::string_view order, Setting setting) {
  fmt::print("{:<44}{:>10}", fmt::format("{}, {}, of {} seeds", name_of(setting), order, kSeeds),
             "found as");
  for (const std::int32_t ranks : kRanks) fmt::print("{:>7}", fmt::format("P={}", ranks));
  fmt::print("\n");
}

class BackendBugTable : public testing::TestWithParam<std::string_view> {};

TEST_P(BackendBugTable, CopyEngines) {
  const std::string implementation = fmt::format("commfuse:order={}:m=2", GetParam());
  print_heading(GetParam(), Setting::ce_ipc);
  count_all(kEverywhere, implementation, Setting::ce_ipc);
  count_all(kCopyEngines, implementation, Setting::ce_ipc);
}

TEST_P(BackendBugTable, Nccl) {
  const std::string implementation = fmt::format("commfuse:order={}:m=2", GetParam());
  print_heading(GetParam(), Setting::nccl);
  count_all(kEverywhere, implementation, Setting::nccl);
  count_all(kNccl, implementation, Setting::nccl);
}

TEST(BackendBugTableOfNccl, Windows) {
  print_heading("plain", Setting::nccl);
  count_all(kWindows, "plain:collective=symmetric", Setting::nccl);
}

INSTANTIATE_TEST_SUITE_P(Orders, BackendBugTable, testing::Values("direct", "ring"),
                         [](const auto& order) { return std::string(order.param); });

}  // namespace
}  // namespace commfuse::fake
