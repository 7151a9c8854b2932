// SPDX-License-Identifier: Apache-2.0
// What the checker compares, on an executor whose runs leave the right answers but for one element.
#include "harness/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "harness/world/thread_world.h"

namespace commfuse {
namespace {

using testing::StartsWith;

constexpr Source kSource{1, DataMode::exact};

struct Element {
  TensorId tensor = 0;
  std::int32_t row = 0;
  std::int32_t col = 0;
};

/// Of one rank, in fp32.
class Answering final : public Executor {
 public:
  Answering(const Workload& workload, Portion portion, std::optional<Element> damaged,
            const Watchdog& watchdog)
      : workload_(workload), portion_(portion), damaged_(damaged), watchdog_(watchdog) {
    for (const Tensor& tensor : workload.tensors) {
      memory_.emplace_back(static_cast<std::size_t>(tensor.elements()));
    }
  }
  PlanHandle prepare(const Plan& /*plan*/) override { return 0; }
  PlanHandle prepare_quiet(const Plan& /*plan*/, PlanHandle origin) override { return origin; }
  void write(PlanHandle, const View& view, std::span<const float> packed) override {
    std::ranges::copy(packed, first_of(view));
  }
  void read(PlanHandle, const View& view, std::span<float> packed) override {
    std::copy_n(first_of(view), packed.size(), packed.begin());
    EXPECT_EQ(watchdog_.where(), "comparing " + workload_.tensors[view.tensor].name);
  }
  void poison(PlanHandle) override {
    for (auto& values : memory_) std::ranges::fill(values, NAN);
  }
  void weights_written() override {}
  void set_link(const LinkSpeed&) override {}
  void report_to(Watchdog&) override {}
  void run(PlanHandle, Mode, std::span<Timeline>) override {
    const Oracle oracle(workload_, kSource);
    for (View row : required_outputs(workload_, portion_)) {
      std::vector<std::int32_t> numbers(static_cast<std::size_t>(row.rows));
      std::iota(numbers.begin(), numbers.end(), 0);
      row.rows = 1;
      for (const ExpectedRow& expected : oracle.rows(portion_, 0, row, numbers)) {
        std::ranges::copy(expected.value, first_of(row));
        ++row.row;
      }
    }
    if (damaged_)
      *first_of({.tensor = damaged_->tensor, .row = damaged_->row, .col = damaged_->col}) += 1;
  }

 private:
  /// Views are whole rows, or one element.
  std::vector<float>::iterator first_of(const View& view) {
    return memory_[view.tensor].begin() +
           std::ptrdiff_t{view.row} * workload_.tensors[view.tensor].cols + view.col;
  }

  const Workload& workload_;
  Portion portion_;
  std::optional<Element> damaged_;
  const Watchdog& watchdog_;
  std::vector<std::vector<float>> memory_;
};

CheckReport check(const Workload& workload, Portion portion, std::optional<Element> damaged) {
  CheckReport report;
  run_thread_ranks(1, [&](World& world) {
    Watchdog watchdog(0, "here", std::chrono::seconds(0), [](int /*exit_code*/) {});
    Answering executor(workload, portion, damaged, watchdog);
    const Checker checker(workload, kSource, watchdog);
    for (int turn = 0; turn < 2; ++turn) {  // the second time with answers that are there already
      report = checker.check(executor, 0, portion, Mode::isolated, world);
    }
  });
  return report;
}

Workload gradients_of(std::string_view shape_text, std::int32_t tokens) {
  Shape shape = parse_shape(shape_text);
  shape.tokens = tokens;
  return find_workloads("dp/zero2").front()->build(shape, 1);
}

TEST(Check, ComparesEveryOutput) {
  const Workload workload = gradients_of("hidden=6,ffn=8,layers=2", 5);
  for (const Portion portion : {Portion::schedule, Portion::compute_only, Portion::comm_only}) {
    const CheckReport sound = check(workload, portion, {});
    EXPECT_EQ(sound.wrong, 0);
    EXPECT_TRUE(sound.bitwise);
    EXPECT_EQ(sound.bound, "exact");
    EXPECT_EQ(sound.compared, 4 * 6 * 8);
    const std::vector<View> outputs = required_outputs(workload, portion);
    ASSERT_EQ(outputs.size(), 4U);
    for (const View& output : outputs) {
      const CheckReport report = check(workload, portion, Element{output.tensor, 3, 2});
      EXPECT_EQ(report.wrong, 1);
      EXPECT_FALSE(report.bitwise);
      EXPECT_THAT(report.first_wrong,
                  StartsWith("rank 0 " + workload.tensors[output.tensor].name + "[3, 2]: got "));
    }
  }
}

/// Rows are sampled, and every element of what is one gemm is seen all the same.
TEST(Check, SamplesWhatIsLarge) {
  const Workload workload = gradients_of("hidden=256,ffn=1024", 128);
  const CheckReport sound = check(workload, Portion::schedule, {});
  EXPECT_EQ(sound.wrong, 0);
  EXPECT_EQ(sound.compared, 8 * 1024 + 256 + 8 * 256);  // dW_down, its projection, dW_up
  const std::vector<View> outputs = required_outputs(workload, Portion::schedule);
  for (const std::int32_t row : {77, 78, 79}) {
    const CheckReport report =
        check(workload, Portion::schedule, Element{outputs[0].tensor, row, 9});
    EXPECT_GE(report.wrong, 1) << row;
    EXPECT_THAT(report.first_wrong, StartsWith("rank 0 dW_down[" + std::to_string(row)));
  }
  for (const std::int32_t row : {0, 1023}) {  // always among the sampled ones
    EXPECT_EQ(check(workload, Portion::schedule, Element{outputs[1].tensor, row, 9}).wrong, 1);
  }
}

}  // namespace
}  // namespace commfuse
