// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/scheduler.h"

#include <algorithm>

namespace commfuse::fake {
namespace {

constexpr std::uint64_t kDemoteOneIn = 16;

}  // namespace

Scheduler::Scheduler(std::uint64_t seed) : random_(seed) {}

std::uint64_t Scheduler::next() { return random_(); }

void Scheduler::add_actor() { priorities_.push_back(static_cast<std::int64_t>(next() >> 1U)); }

Actor Scheduler::highest(std::span<const Actor> runnable) const {
  return *std::ranges::max_element(runnable, {}, [&](Actor actor) { return priorities_[actor]; });
}

void Scheduler::demote(Actor actor) { priorities_[actor] = --lowest_; }

Actor Scheduler::choose(std::span<const Actor> runnable) {
  const Actor first = highest(runnable);
  if (runnable.size() == 1 || next() % kDemoteOneIn != 0) return first;
  demote(first);
  return highest(runnable);
}

}  // namespace commfuse::fake
