// SPDX-License-Identifier: Apache-2.0
// An executor that has nothing but traces.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "harness/executor.h"

namespace commfuse {

class TracedExecutor final : public Executor {
 public:
  explicit TracedExecutor(std::vector<TracedIteration> traces) : traces_(std::move(traces)) {}
  PlanHandle prepare(const Plan& /*plan*/) override { return 0; }
  PlanHandle prepare_quiet(const Plan& /*plan*/, PlanHandle origin) override { return origin; }
  void write(PlanHandle, const View&, std::span<const float>) override {}
  void read(PlanHandle, const View&, std::span<float>) override {}
  void poison(PlanHandle) override {}
  void weights_written() override {}
  void set_link(const LinkSpeed&) override {}
  void report_to(Watchdog&) override {}
  void run(PlanHandle, Mode, std::span<Timeline>) override {}
  std::vector<TracedIteration> trace(PlanHandle, std::int32_t) override { return traces_; }

 private:
  std::vector<TracedIteration> traces_;
};

}  // namespace commfuse
