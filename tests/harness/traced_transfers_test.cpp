// SPDX-License-Identifier: Apache-2.0
// What is said of traced iterations, on a backend whose traces are made up.
#include "harness/traced_transfers.h"

#include <gtest/gtest.h>

#include <vector>

#include "harness/self_test.h"
#include "harness/world/thread_world.h"
#include "tests/harness/traced_executor.h"

namespace commfuse {
namespace {

using State = SelfTestPart::State;

class TracedBackend final : public Backend {
 public:
  explicit TracedBackend(std::vector<TracedIteration> traces) : traces_(std::move(traces)) {}
  [[nodiscard]] std::string_view name() const override { return "traced"; }
  std::unique_ptr<Executor> executor(World&, const Workload&, std::string_view transport) override {
    if (transport == "none") throw Unsupported("there is no transport none");
    return std::make_unique<TracedExecutor>(traces_);
  }
  [[nodiscard]] std::int64_t cache_bytes() const override { return 0; }
  [[nodiscard]] std::int64_t available_bytes() const override { return 0; }
  [[nodiscard]] std::map<std::string, std::string> libraries() const override { return {}; }
  double measured_peak() override { return 0; }

 private:
  std::vector<TracedIteration> traces_;
};

/// On two ranks that see the same.
SelfTestPart traced(const std::vector<TracedIteration>& traces, std::string transport = "ce") {
  SelfTestPart part;
  run_thread_ranks(2, [&](World& world) {
    TracedBackend backend(traces);
    CaseGroup cases = self_test_cases(parse_options({"--selftest"}), world.ranks(), true).front();
    cases.transport = transport;
    const SelfTestPart own = trace_transfers(backend, world, cases);
    if (world.rank() == 0) part = own;
  });
  return part;
}

TEST(TracedTransfers, SaysWhichEnginesCopied) {
  const SelfTestPart all = traced({{"", {}, true}, {"", {}, true}});
  EXPECT_EQ(all.state, State::ok);
  EXPECT_EQ(all.name, "traced transfers over ce");
  EXPECT_EQ(all.text, "4 of 4 traces of all ranks count; copy engines made all copies in 4");
  const SelfTestPart some =
      traced({{"", {}, true}, {"", {}, false}, {"2 records dropped", {}, true}});
  EXPECT_EQ(some.text,
            "4 of 6 traces of all ranks count; copy engines made all copies in 2; one that does "
            "not: 2 records dropped");
}

TEST(TracedTransfers, WhatNobodySawIsMissing) {
  const SelfTestPart none = traced({});
  EXPECT_EQ(none.state, State::missing);
  EXPECT_EQ(none.text, "nobody saw them: there is no profiler, or it cannot see replays of graphs");
  const SelfTestPart useless = traced({{"2 records dropped", {}, false}});
  EXPECT_EQ(useless.state, State::missing);
  EXPECT_EQ(useless.text, "no trace counts: 2 records dropped");
  const SelfTestPart refused = traced({}, "none");
  EXPECT_EQ(refused.state, State::missing);
  EXPECT_EQ(refused.text, "there is no transport none");
}

}  // namespace
}  // namespace commfuse
