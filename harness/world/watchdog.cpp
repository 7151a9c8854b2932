// SPDX-License-Identifier: Apache-2.0
#include "harness/world/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "harness/world/say.h"

namespace commfuse {
namespace {

// Late by a quarter of the timeout at most, and by no more than a second.
constexpr int kLooksPerTimeout = 4;
constexpr std::int64_t kLongestLookNs = 1'000'000'000;

// One write, so that the blocks of several ranks do not mix; no stream whose lock a thread that
// hangs may hold.
void print_block(const std::string& text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

// Runs `action` on another thread; false if it has not ended within `limit`. The thread is left
// behind then: the process ends soon.
bool ends_within(std::chrono::milliseconds limit, std::function<void()> action) {
  struct State {
    std::atomic<bool> done{false};
    Doorbell bell;
  };
  const auto state = std::make_shared<State>();
  std::thread([state, action = std::move(action)] {
    try {
      action();
    } catch (...) {  // nothing is left to do about a failing last step
    }
    state->done.store(true, std::memory_order_release);
    state->bell.ring();
  }).detach();
  const std::int64_t limit_ns = std::chrono::nanoseconds(limit).count();
  return state->bell.wait_until([&] { return state->done.load(std::memory_order_acquire); },
                                monotonic_ns() + limit_ns);
}

double seconds_in(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Watchdog::Watchdog(std::int32_t rank, std::string host, std::chrono::nanoseconds timeout,
                   std::function<void(int)> abort)
    : Watchdog(rank, std::move(host), timeout, std::move(abort), Limits()) {}

Watchdog::Watchdog(std::int32_t rank, std::string host, std::chrono::nanoseconds timeout,
                   std::function<void(int)> abort, Limits limits)
    : rank_(rank),
      host_(std::move(host)),
      timeout_(timeout),
      abort_(std::move(abort)),
      limits_(limits) {
  if (timeout_.count() > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  ended_.store(true, std::memory_order_release);
  bell_.ring();
  if (thread_.joinable()) thread_.join();
}

Watchdog::Phase Watchdog::guard(std::string_view name, Describe describe) {
  return enter({std::string(name), std::move(describe), count_.load(std::memory_order_relaxed),
                /*watched=*/true});
}

Watchdog::Phase Watchdog::idle(std::string_view name) {
  return enter({std::string(name), {}, count_.load(std::memory_order_relaxed), /*watched=*/false});
}

Watchdog::Phase Watchdog::enter(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (!entry.watched) idle_.fetch_add(1, std::memory_order_relaxed);
  phases_.push_back(std::move(entry));
  phase_changes_.fetch_add(1, std::memory_order_relaxed);
  return Phase(*this);
}

void Watchdog::leave() {
  const std::lock_guard lock(mutex_);
  if (!phases_.back().watched) idle_.fetch_sub(1, std::memory_order_relaxed);
  phases_.pop_back();
  phase_changes_.fetch_add(1, std::memory_order_relaxed);
}

void Watchdog::results_in(std::string_view file) {
  const std::lock_guard lock(mutex_);
  results_ = fmt::format("records so far are in {}; go on with --resume", file);
}

std::string Watchdog::where() const {
  const std::lock_guard lock(mutex_);
  return where_locked();
}

std::string Watchdog::where_locked() const {
  if (phases_.empty()) return "between phases";
  std::string text;
  for (const Entry& phase : phases_) {
    if (!text.empty()) text += " > ";
    text += phase.name;
  }
  return text;
}

std::string Watchdog::last_finished() const {
  const auto explains = [](const Entry& phase) { return static_cast<bool>(phase.describe); };
  const auto phase = std::find_if(phases_.rbegin(), phases_.rend(), explains);
  if (phase == phases_.rend()) return "not reported in this phase";
  if (count_.load(std::memory_order_relaxed) == phase->count_before) {
    return fmt::format("nothing since {} began", phase->name);
  }
  return phase->describe(last_.load(std::memory_order_relaxed));
}

void Watchdog::watch() {
  const std::int64_t look_ns = std::min(timeout_.count() / kLooksPerTimeout + 1, kLongestLookNs);
  const auto sign_of_life = [&] {
    return count_.load(std::memory_order_relaxed) + phase_changes_.load(std::memory_order_relaxed);
  };
  std::uint64_t last_sign = sign_of_life();
  std::int64_t since_ns = monotonic_ns();
  const auto ended = [&] { return ended_.load(std::memory_order_acquire); };
  while (!bell_.wait_until(ended, monotonic_ns() + look_ns)) {
    const std::uint64_t sign = sign_of_life();
    if (sign != last_sign || idle_.load(std::memory_order_relaxed) > 0) {
      last_sign = sign;
      since_ns = monotonic_ns();
    } else if (monotonic_ns() - since_ns >= timeout_.count()) {
      expire();
    }
  }
}

void Watchdog::expire() {
  {
    const std::lock_guard lock(mutex_);
    print_block(
        fmt::format("commfuse-bench: timeout: rank {} on {} made no progress for {:g} s\n"
                    "  phase: {}\n"
                    "  last finished: {}\n{}",
                    rank_, host_, seconds_in(timeout_), where_locked(), last_finished(),
                    results_.empty() ? "" : fmt::format("  {}\n", results_)));
  }
  asks_.store(true, std::memory_order_relaxed);
  sleep_until(monotonic_ns() + std::chrono::nanoseconds(limits_.others).count());
  end_all(kExitTimeout);
}

void Watchdog::answer(std::string_view lines) {
  asks_.store(false, std::memory_order_relaxed);
  if (lines.empty()) return;
  print_block(fmt::format("commfuse-bench: rank {} on {} waits for\n{}", rank_, host_, lines));
}

void Watchdog::interrupted(const Signal& signal) {
  if (rank_ == 0 || !signal.from_launcher) {
    const std::lock_guard lock(mutex_);
    say(fmt::format("interrupted by {} in phase {} (rank {} on {}){}{}", signal.name,
                    where_locked(), rank_, host_, results_.empty() ? "" : "; ", results_));
  }
  if (signal.from_launcher) {
    // Open MPI 4 kills the other ranks at once when the first of them has ended.
    if (rank_ != 0) sleep_until(monotonic_ns() + std::chrono::nanoseconds(limits_.others).count());
    _exit(kExitInterrupted);
  }
  end_all(kExitInterrupted);
}

void Watchdog::end_all(int exit_code) {
  ends_within(limits_.abort, [this, exit_code] { abort_(exit_code); });
  _exit(exit_code);
}

}  // namespace commfuse
