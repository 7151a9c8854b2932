// SPDX-License-Identifier: Apache-2.0
#include "harness/measure.h"

#include <gtest/gtest.h>

#include <vector>

#include "harness/world/thread_world.h"

namespace commfuse {
namespace {

/// An iteration of plan h takes 1000 (h + 1) ns, of which rank r needs 100 (r + 1) to issue it.
class TimedExecutor final : public Executor {
 public:
  explicit TimedExecutor(std::int32_t rank) : rank_(rank) {}
  PlanHandle prepare(const Plan& /*plan*/) override { return 0; }
  PlanHandle prepare_quiet(const Plan& /*plan*/, PlanHandle origin) override { return origin; }
  void write(PlanHandle, const View&, std::span<const float>) override {}
  void read(PlanHandle, const View&, std::span<float>) override {}
  void poison(PlanHandle) override {}
  void weights_written() override {}
  void set_link(const LinkSpeed&) override {}
  void report_to(Watchdog&) override {}
  void run(PlanHandle plan, Mode, std::span<Timeline> timelines) override {
    for (Timeline& timeline : timelines) {
      timeline.start_ns = 0;
      timeline.end_ns = 1000 * (static_cast<std::int64_t>(plan) + 1);
    }
  }
  [[nodiscard]] std::int64_t issue_ns_of_last_run() const override { return 100 * (rank_ + 1); }

 private:
  std::int32_t rank_;
};

TEST(Measure, IssueTimeIsThatOfTheSlowestRank) {
  run_thread_ranks(2, [](World& world) {
    TimedExecutor executor(world.rank());
    Watchdog watchdog(world.rank(), world.host(), std::chrono::nanoseconds(0), [](int) {});
    const std::vector<SampledPlan> plans{{"short", {}, 0, 0}, {"long", {}, 1, 0}};
    const Measurement measurement =
        measure(world, executor, plans, Mode::isolated, 1, {.repetitions = 3}, watchdog);
    EXPECT_EQ(measurement.issue_ns, (std::vector<double>{200, 200}));
    EXPECT_EQ(measurement.times_ns[1], (std::vector<double>{2000, 2000, 2000}));
  });
}

TEST(Measure, DevicesAreReadBeforeAndAfterEachRun) {
  run_thread_ranks(2, [](World& world) {
    TimedExecutor executor(world.rank());
    Watchdog watchdog(world.rank(), world.host(), std::chrono::nanoseconds(0), [](int) {});
    const std::vector<SampledPlan> plans{{"short", {}, 0, 0}, {"long", {}, 1, 0}};
    int readings = 0;
    const auto read = [&] {
      ++readings;
      return std::optional(DeviceReading{.sm_clock_mhz = 1000.0 + 100 * world.rank()});
    };
    const Measurement measurement =
        measure(world, executor, plans, Mode::isolated, 4, {.repetitions = 3}, watchdog, read);
    EXPECT_EQ(readings, 2 * 2 * 3);  // not once per iteration
    ASSERT_EQ(measurement.device.size(), world.rank() == 0 ? 2U : 0U);
    for (const DeviceSamples& run : measurement.device) {
      ASSERT_EQ(run.size(), 2U);
      ASSERT_EQ(run[1].size(), 3U);
      EXPECT_EQ(run[0][2].clock_mhz, 1000);
      EXPECT_EQ(run[1][2].clock_mhz, 1100);
    }
  });
}

TEST(Measure, EverySampledIterationIsObserved) {
  run_thread_ranks(2, [](World& world) {
    for (const Mode mode : {Mode::isolated, Mode::steady}) {
      TimedExecutor executor(world.rank());
      Watchdog watchdog(world.rank(), world.host(), std::chrono::nanoseconds(0), [](int) {});
      const std::vector<SampledPlan> plans{{"short", {}, 0, 0}, {"long", {}, 1, 0}};
      std::vector<std::vector<std::int64_t>> windows(2);
      const auto observe = [&](std::size_t run, const Timeline& timeline) {
        windows.at(run).push_back(timeline.end_ns);
      };
      (void)measure(world, executor, plans, mode, 4, {.repetitions = 3}, watchdog, {}, observe);
      EXPECT_EQ(windows[0], std::vector<std::int64_t>(4 * 3, 1000));
      EXPECT_EQ(windows[1], std::vector<std::int64_t>(4 * 3, 2000));
    }
  });
}

TEST(Measure, WithoutADeviceNothingIsSaidOfIt) {
  run_thread_ranks(2, [](World& world) {
    TimedExecutor executor(world.rank());
    Watchdog watchdog(world.rank(), world.host(), std::chrono::nanoseconds(0), [](int) {});
    const std::vector<SampledPlan> plans{{"short", {}, 0, 0}};
    const Measurement measurement =
        measure(world, executor, plans, Mode::isolated, 1, {.repetitions = 3}, watchdog);
    if (world.rank() != 0) return;
    EXPECT_TRUE(device_state_details(measurement.device.at(0)).is_null());
  });
}

}  // namespace
}  // namespace commfuse
