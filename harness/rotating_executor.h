// SPDX-License-Identifier: Apache-2.0
// --cache rotate: several executors of one case, each with storage of its own, take turns, so that
// what an iteration reads is not in the cache from the iteration before.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/executor.h"

namespace commfuse {

/// Of more, each with streams, threads and storage of its own, a case is skipped.
constexpr std::int32_t kMostSets = 32;

/// How many sets of `set_bytes` must take turns so that the others fill a cache between two uses of
/// one: at least 2.
std::int32_t sets_beyond_cache(std::int64_t cache_bytes, std::int64_t set_bytes);

/// Every rank makes the same calls, so all ranks use the same set in each run. Data is written to
/// all sets, and read from the one that ran last. Traced iterations stay within one set: they are
/// as they are with one executor, warm.
class RotatingExecutor final : public Executor {
 public:
  /// All of the same case, at least one.
  explicit RotatingExecutor(std::vector<std::unique_ptr<Executor>> sets);

  PlanHandle prepare(const Plan& plan) override;
  PlanHandle prepare_quiet(const Plan& plan, PlanHandle origin) override;
  void write(PlanHandle plan, const View& view, std::span<const float> packed) override;
  void read(PlanHandle plan, const View& view, std::span<float> packed) override;
  void poison(PlanHandle plan) override;
  void weights_written() override;
  void set_link(const LinkSpeed& link) override;
  WireReport take_wire_report() override;
  void report_to(Watchdog& watchdog) override;
  /// Isolated only: throws std::invalid_argument otherwise.
  void run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) override;
  std::vector<TracedIteration> trace(PlanHandle plan, std::int32_t iterations) override;
  [[nodiscard]] std::int64_t issue_ns_of_last_run() const override;
  [[nodiscard]] std::map<std::string, std::string> facts() const override;
  [[nodiscard]] std::map<std::string, std::string> plan_facts(PlanHandle plan) const override;

 private:
  Executor& turn_to_next();
  [[nodiscard]] Executor& last() const { return *sets_[last_]; }

  std::vector<std::unique_ptr<Executor>> sets_;
  std::size_t last_;
};

}  // namespace commfuse
