// SPDX-License-Identifier: Apache-2.0
#include "harness/rotating_executor.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace commfuse {
namespace {

/// Executors that got the same calls number their plans alike.
template <class Prepare>
PlanHandle same_handle(const std::vector<std::unique_ptr<Executor>>& sets, Prepare prepare) {
  const PlanHandle handle = prepare(*sets.front());
  for (std::size_t i = 1; i < sets.size(); ++i) {
    if (prepare(*sets[i]) != handle) throw std::logic_error("sets number their plans differently");
  }
  return handle;
}

}  // namespace

std::int32_t sets_beyond_cache(std::int64_t cache_bytes, std::int64_t set_bytes) {
  const std::int64_t set = std::max<std::int64_t>(set_bytes, 1);
  const std::int64_t others = std::max<std::int64_t>((cache_bytes + set - 1) / set, 1);
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(1 + others, std::numeric_limits<std::int32_t>::max()));
}

RotatingExecutor::RotatingExecutor(std::vector<std::unique_ptr<Executor>> sets)
    : sets_(std::move(sets)), last_(sets_.size() - 1) {
  if (sets_.empty()) throw std::invalid_argument("there is no set to take a turn");
}

PlanHandle RotatingExecutor::prepare(const Plan& plan) {
  return same_handle(sets_, [&](Executor& set) { return set.prepare(plan); });
}

PlanHandle RotatingExecutor::prepare_quiet(const Plan& plan, PlanHandle origin) {
  return same_handle(sets_, [&](Executor& set) { return set.prepare_quiet(plan, origin); });
}

void RotatingExecutor::write(PlanHandle plan, const View& view, std::span<const float> packed) {
  for (const auto& set : sets_) set->write(plan, view, packed);
}

void RotatingExecutor::read(PlanHandle plan, const View& view, std::span<float> packed) {
  last().read(plan, view, packed);
}

void RotatingExecutor::poison(PlanHandle plan) {
  for (const auto& set : sets_) set->poison(plan);
}

void RotatingExecutor::weights_written() {
  for (const auto& set : sets_) set->weights_written();
}

void RotatingExecutor::set_link(const LinkSpeed& link) {
  for (const auto& set : sets_) set->set_link(link);
}

WireReport RotatingExecutor::take_wire_report() {
  WireReport report;
  for (const auto& set : sets_) report += set->take_wire_report();
  return report;
}

void RotatingExecutor::report_to(Watchdog& watchdog) {
  for (const auto& set : sets_) set->report_to(watchdog);
}

Executor& RotatingExecutor::turn_to_next() {
  last_ = (last_ + 1) % sets_.size();
  return last();
}

void RotatingExecutor::run(PlanHandle plan, Mode mode, std::span<Timeline> timelines) {
  if (mode != Mode::isolated) {
    throw std::invalid_argument("sets take turns between isolated iterations only");
  }
  turn_to_next().run(plan, mode, timelines);
}

std::vector<TracedIteration> RotatingExecutor::trace(PlanHandle plan, std::int32_t iterations) {
  return turn_to_next().trace(plan, iterations);
}

std::int64_t RotatingExecutor::issue_ns_of_last_run() const {
  return last().issue_ns_of_last_run();
}

std::map<std::string, std::string> RotatingExecutor::facts() const {
  return sets_.front()->facts();
}

std::map<std::string, std::string> RotatingExecutor::plan_facts(PlanHandle plan) const {
  return sets_.front()->plan_facts(plan);
}

}  // namespace commfuse
