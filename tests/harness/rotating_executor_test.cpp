// SPDX-License-Identifier: Apache-2.0
// Who takes turns, and what goes to all: on executors that note their calls.
#include "harness/rotating_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "harness/limits.h"
#include "harness/listing.h"
#include "harness/memory.h"
#include "harness/world/watchdog.h"

namespace commfuse {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Notes = std::vector<std::string>;

/// Notes "name call" and holds one value.
class Noting final : public Executor {
 public:
  Noting(std::string name, Notes& notes, PlanHandle first)
      : name_(std::move(name)), notes_(notes), next_(first) {}
  PlanHandle prepare(const Plan& /*plan*/) override { return note("prepare"), next_++; }
  PlanHandle prepare_quiet(const Plan& /*plan*/, PlanHandle origin) override {
    note("prepare_quiet of " + std::to_string(origin));
    return next_++;
  }
  void write(PlanHandle, const View&, std::span<const float> packed) override {
    value_ = packed[0];
  }
  void read(PlanHandle, const View&, std::span<float> packed) override { packed[0] = value_; }
  void poison(PlanHandle) override { note("poison"); }
  void weights_written() override { note("weights_written"); }
  void set_link(const LinkSpeed&) override { note("set_link"); }
  void report_to(Watchdog&) override { note("report_to"); }
  WireReport take_wire_report() override { return {.transfers = 1, .latest_ns = 5}; }
  void run(PlanHandle, Mode, std::span<Timeline>) override {
    note("run");
    value_ += 1;
  }
  std::vector<TracedIteration> trace(PlanHandle, std::int32_t iterations) override {
    note("trace");
    return std::vector<TracedIteration>(static_cast<std::size_t>(iterations));
  }
  [[nodiscard]] std::int64_t issue_ns_of_last_run() const override {
    return static_cast<std::int64_t>(value_);
  }
  [[nodiscard]] std::map<std::string, std::string> facts() const override {
    return {{"name", name_}};
  }

 private:
  void note(const std::string& call) { notes_.push_back(name_ + " " + call); }

  std::string name_;
  Notes& notes_;
  PlanHandle next_;
  float value_ = 0;
};

class Rotating : public testing::Test {
 protected:
  Rotating() {
    std::vector<std::unique_ptr<Executor>> sets;
    for (const char* name : {"a", "b"}) sets.push_back(std::make_unique<Noting>(name, notes, 3));
    executor.emplace(std::move(sets));
  }
  float value() {
    float read = -1;
    executor->read(0, {}, {&read, 1});
    return read;
  }
  void run() {
    std::vector<Timeline> timelines(1);
    executor->run(0, Mode::isolated, timelines);
  }

  Notes notes;
  std::optional<RotatingExecutor> executor;
};

TEST_F(Rotating, CaseB10ConsecutiveRunsUseDifferentSets) {
  for (int i = 0; i < 3; ++i) run();
  executor->trace(0, 2);
  run();
  EXPECT_THAT(notes, ElementsAre("a run", "b run", "a run", "b trace", "a run"));
}

TEST_F(Rotating, CaseB10WhatIsReadIsOfTheRunBefore) {
  const float ten = 10;
  executor->write(0, {}, {&ten, 1});
  run();
  EXPECT_EQ(value(), 11);  // a
  run();
  EXPECT_EQ(value(), 11);  // b, which had not run
  run();
  EXPECT_EQ(value(), 12);  // a again
  EXPECT_EQ(executor->issue_ns_of_last_run(), 12);
}

TEST_F(Rotating, EverySetIsPrepared) {
  Watchdog watchdog(0, "host", std::chrono::seconds(100), [](int) {});
  EXPECT_EQ(executor->prepare({}), 3U);
  EXPECT_EQ(executor->prepare_quiet({}, 3), 4U);
  executor->report_to(watchdog);
  executor->poison(3);
  executor->weights_written();
  executor->set_link({});
  EXPECT_THAT(notes,
              ElementsAre("a prepare", "b prepare", "a prepare_quiet of 3", "b prepare_quiet of 3",
                          "a report_to", "b report_to", "a poison", "b poison", "a weights_written",
                          "b weights_written", "a set_link", "b set_link"));
  EXPECT_EQ(executor->take_wire_report().transfers, 2);
  EXPECT_EQ(executor->take_wire_report().latest_ns, 5);
  EXPECT_EQ(executor->facts().at("name"), "a");
}

TEST_F(Rotating, IterationsBackToBackCannotTakeTurns) {
  std::vector<Timeline> timelines(2);
  EXPECT_THROW(executor->run(0, Mode::steady, timelines), std::invalid_argument);
  EXPECT_TRUE(notes.empty());
}

TEST(RotatingExecutor, SetsMustNumberTheirPlansAlike) {
  Notes notes;
  std::vector<std::unique_ptr<Executor>> sets;
  for (const PlanHandle first : {0U, 1U})
    sets.push_back(std::make_unique<Noting>("x", notes, first));
  RotatingExecutor executor(std::move(sets));
  EXPECT_THROW(executor.prepare({}), std::logic_error);
  EXPECT_THROW(RotatingExecutor({}), std::invalid_argument);
}

TEST(RotatingExecutor, TheOtherSetsFillTheCache) {
  EXPECT_EQ(sets_beyond_cache(0, 100), 2);
  EXPECT_EQ(sets_beyond_cache(100, 100), 2);
  EXPECT_EQ(sets_beyond_cache(101, 100), 3);
  EXPECT_EQ(sets_beyond_cache(1000, 100), 11);
  EXPECT_EQ(sets_beyond_cache(1000, 0), 1001);
  EXPECT_EQ(sets_beyond_cache(std::int64_t{1} << 62, 1), std::numeric_limits<std::int32_t>::max());
}

TEST(RotatingExecutor, TooManySetsAreRefusedWithTheSizes) {
  EXPECT_EQ(too_many_sets(kMostSets, 1, 1), "");
  EXPECT_THAT(too_many_sets(kMostSets + 1, 64 << 20, 1 << 20),
              HasSubstr("needs 33 sets of 1.0 MiB to exceed a cache of 64.0 MiB"));
}

std::string dry_run_of(std::vector<std::string> arguments, std::int64_t cache_bytes) {
  for (const char* argument : {"--shape", "hidden=256,ffn=1024,heads=8,kv_heads=4", "--tokens",
                               "256", "--impl", "plain", "--dry-run"}) {
    arguments.emplace_back(argument);
  }
  const auto groups = expand_cases(parse_options(arguments), 2, true);
  Machine machine;
  machine.cache_bytes = cache_bytes;
  return dry_run(groups, machine);
}

TEST(RotatingExecutor, ADryRunCountsEverySet) {
  const std::string hot = dry_run_of({}, 4 << 20);
  EXPECT_THAT(hot, testing::Not(HasSubstr(" sets")));
  EXPECT_THAT(hot, testing::Not(HasSubstr("cache")));
  const auto bytes_in = [](const std::string& text) {
    return std::stod(text.substr(text.find("about ") + 6));
  };
  const std::string rotate = dry_run_of({"--cache", "rotate"}, 4 << 20);
  const auto groups = expand_cases(
      parse_options({"--shape", "hidden=256,ffn=1024,heads=8,kv_heads=4", "--tokens", "256"}), 2,
      true);
  const auto& group = groups.front();
  const std::int32_t sets =
      sets_beyond_cache(4 << 20, tensor_bytes(group.workload->build(group.shape, 2)));
  ASSERT_GE(sets, 3);
  EXPECT_THAT(rotate, HasSubstr(" per rank in " + std::to_string(sets) + " sets\n"));
  EXPECT_THAT(rotate, HasSubstr("/mode:isolated/cache:rotate\n"));
  EXPECT_NEAR(bytes_in(rotate), sets * bytes_in(hot), 0.06 * sets);
  EXPECT_THAT(dry_run_of({"--cache", "rotate"}, 0), HasSubstr(" in 2 sets or more\n"));
  EXPECT_THAT(dry_run_of({"--cache", "rotate"}, std::int64_t{1} << 30),
              HasSubstr("skipped: --cache rotate needs "));
}

}  // namespace
}  // namespace commfuse
