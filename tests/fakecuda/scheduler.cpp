// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/scheduler.h"

#include <algorithm>

namespace commfuse::fake {
namespace {

constexpr std::uint64_t kDemoteOneIn = 16;

/// The output function of splitmix64: every bit of the result depends on every bit of x.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

Scheduler::Scheduler(std::uint64_t seed) : state_(mix(seed + 1)) {}

std::uint64_t Scheduler::next() { return mix(state_ += 0x9e3779b97f4a7c15U); }

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
