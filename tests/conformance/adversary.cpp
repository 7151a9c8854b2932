// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/adversary.h"

#include <algorithm>

namespace commfuse {
namespace {

constexpr std::uint64_t kDemoteOneIn = 12;

/// The output function of splitmix64: every bit of the result depends on every bit of x.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

Adversary::Adversary(std::uint64_t seed)
    : mode_(static_cast<Mode>(seed % 4)), seed_(mix(seed + 1)), state_(seed_) {}

std::uint64_t Adversary::next() { return mix(state_ += 0x9e3779b97f4a7c15U); }

bool Adversary::flip() { return next() % 2 == 0; }

std::uint64_t Adversary::group_of(const Runnable& runnable) const {
  if (mode_ == Mode::by_rank) return static_cast<std::uint64_t>(runnable.rank);
  return static_cast<std::uint64_t>(runnable.kind) * kLanes +
         static_cast<std::uint64_t>(runnable.lane);
}

void Adversary::add(const Runnable& runnable) {
  // Priorities are positive: a random number per event, below a random number per group if the mode
  // has groups.
  std::uint64_t priority = next() >> 34U;
  if (mode_ == Mode::by_rank || mode_ == Mode::by_kind) {
    priority |= mix(seed_ ^ (group_of(runnable) + 1)) >> 33U << 30U;
  }
  pool_.push_back({runnable, static_cast<std::int64_t>(priority >> 1U)});
}

std::size_t Adversary::highest() const {
  const auto found = std::ranges::max_element(pool_, {}, &Entry::priority);
  return static_cast<std::size_t>(found - pool_.begin());
}

Runnable Adversary::take() {
  std::size_t choice = 0;
  if (mode_ == Mode::uniform) {
    choice = static_cast<std::size_t>(next() % pool_.size());
  } else {
    choice = highest();
    if (pool_.size() > 1 && next() % kDemoteOneIn == 0) {
      pool_[choice].priority = --lowest_;
      choice = highest();
    }
  }
  const Runnable taken = pool_[choice].runnable;
  pool_[choice] = pool_.back();
  pool_.pop_back();
  return taken;
}

}  // namespace commfuse
