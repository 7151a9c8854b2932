// SPDX-License-Identifier: Apache-2.0
// Counts which bugs are found in collectives over copy engines, of 20 seeds: no finding as they
// are, and every bug with every seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tuple>

#include "tests/conformance/collective_cases.h"
#include "tests/fakecuda/backend_run.h"
#include "tests/fakecuda/collective_fault.h"
#include "tests/fakecuda/seeds.h"

namespace commfuse::fake {
namespace {

struct Row {
  CollectiveBug bug;
  Verdict::Kind found;
  const char* name;
};

constexpr std::array kEveryKind{
    Row{CollectiveBug::none, Verdict::Kind::ok, "none"},
    Row{CollectiveBug::no_ready_wait, Verdict::Kind::race, "no event wait before the push"},
    Row{CollectiveBug::no_credit_written, Verdict::Kind::deadlock, "no credit written"},
    Row{CollectiveBug::arrival_before_block, Verdict::Kind::race, "arrival before the block"},
    Row{CollectiveBug::no_arrival_wait, Verdict::Kind::race, "no wait for the arrival"},
    Row{CollectiveBug::arrival_wait_low, Verdict::Kind::race, "wait for it one epoch low"},
    Row{CollectiveBug::no_arrival_written, Verdict::Kind::deadlock, "no arrival written"},
};

/// In an all-reduce what a rank has of the iteration before tells it as much: the sum of a peer
/// comes after the peer's last look at what was staged, and its block after that at the result.
constexpr std::array kAllButAllReduce{
    Row{CollectiveBug::no_credit_wait, Verdict::Kind::race, "no wait for the credit"},
    Row{CollectiveBug::credit_wait_low, Verdict::Kind::race, "wait for it one epoch low"},
    Row{CollectiveBug::no_push_wait, Verdict::Kind::race, "no wait until it was pushed"},
};

constexpr std::array kAllReduce{
    Row{CollectiveBug::no_summed_wait, Verdict::Kind::race, "no event wait for the sum"},
    Row{CollectiveBug::sum_arrival_before_sum, Verdict::Kind::race, "arrival before the sum"},
    Row{CollectiveBug::no_sum_arrival_wait, Verdict::Kind::race, "no wait for the sum"},
    Row{CollectiveBug::sum_arrival_wait_low, Verdict::Kind::race, "wait for it one epoch low"},
    Row{CollectiveBug::no_sum_arrival_written, Verdict::Kind::deadlock, "no arrival of it written"},
};

class CollectiveBugTable : public testing::TestWithParam<std::tuple<CollectiveKind, std::int32_t>> {
 protected:
  static void expect_found(const Row& row) {
    const auto& [kind, ranks] = GetParam();
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const BackendRun run{Setting::ce_ipc, ranks, seed};
      CollectiveFault fault(row.bug, kind, ranks);
      const Verdict verdict = run_backend(run, [&, kind = kind](World& world) {
        run_collective(world, {kind, DType::bf16, Lane::compute},
                       [&](World& group, const Workload& workload) {
                         return make_executor(run, group, workload);
                       });
      });
      EXPECT_EQ(fault.hits() > 0, row.bug != CollectiveBug::none) << row.name;
      EXPECT_EQ(verdict.kind, row.found)
          << row.name << ", seed " << seed << ": " << verdict.message;
    }
  }
};

TEST_P(CollectiveBugTable, EveryBugIsFound) {
  const bool all_reduce = std::get<0>(GetParam()) == CollectiveKind::all_reduce;
  for (const Row& row : kEveryKind) expect_found(row);
  if (all_reduce) {
    for (const Row& row : kAllReduce) expect_found(row);
  } else {
    for (const Row& row : kAllButAllReduce) expect_found(row);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CollectiveBugTable,
                         testing::Combine(testing::ValuesIn(kCollectiveKinds),
                                          testing::Values(2, 3, 4)),
                         [](const auto& test) {
                           return fmt::format("{}_on_{}", name_of(std::get<0>(test.param)),
                                              std::get<1>(test.param));
                         });

}  // namespace
}  // namespace commfuse::fake
