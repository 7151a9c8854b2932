// SPDX-License-Identifier: Apache-2.0
#include "harness/world/doorbell.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

namespace commfuse {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kHangNs = 60'000 * kMs;  // reached by a lost wake-up only

TEST(Doorbell, DeadlineEndsTheWaitAndNotBefore) {
  for (const std::int64_t spin_ns : {std::int64_t{0}, kSpinNs, 100 * kMs}) {
    Doorbell bell;
    const std::int64_t deadline_ns = monotonic_ns() + 5 * kMs;
    EXPECT_FALSE(bell.wait_past(bell.sequence(), deadline_ns, spin_ns));
    EXPECT_GE(monotonic_ns(), deadline_ns);
  }
}

TEST(Doorbell, DeadlineInThePastDoesNotWait) {
  Doorbell bell;
  EXPECT_FALSE(bell.wait_past(bell.sequence(), 0));
  EXPECT_FALSE(bell.wait_until([] { return false; }, 1, kSpinNs));
}

TEST(Doorbell, EarlierRingIsNotMissed) {
  Doorbell bell;
  const std::uint32_t seen = bell.sequence();
  bell.ring();
  EXPECT_TRUE(bell.wait_past(seen, kNeverNs));
}

TEST(Doorbell, ReadyStateNeedsNoRing) {
  Doorbell bell;
  EXPECT_TRUE(bell.wait_until([] { return true; }, kNeverNs));
}

TEST(Doorbell, StateIsAskedOnceMoreAtTheDeadline) {
  Doorbell bell;
  int asked = 0;
  EXPECT_TRUE(bell.wait_until([&] { return ++asked == 2; }, monotonic_ns() + kMs));
}

TEST(Doorbell, WakesEverySleeper) {
  Doorbell bell;
  std::atomic<bool> open{false};
  std::atomic<int> through{0};
  std::vector<std::jthread> sleepers;
  sleepers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      if (bell.wait_until([&] { return open.load(std::memory_order_acquire); },
                          monotonic_ns() + kHangNs)) {
        ++through;
      }
    });
  }
  sleep_until(monotonic_ns() + 10 * kMs);
  bell.ring();  // says nothing: they sleep on
  EXPECT_EQ(through, 0);
  open.store(true, std::memory_order_release);
  bell.ring();
  sleepers.clear();
  EXPECT_EQ(through, 4);
}

// Many short sleeps against many rings: a wake-up lost between the look and the sleep would hang.
TEST(Doorbell, LosesNoRingUnderContention) {
  constexpr std::uint32_t kRounds = 20'000;
  Doorbell ping;
  Doorbell pong;
  std::atomic<std::uint32_t> ball{0};
  const auto play = [&](Doorbell& own, Doorbell& other, std::uint32_t parity) {
    for (std::uint32_t round = parity; round < kRounds; round += 2) {
      if (!own.wait_until([&] { return ball.load(std::memory_order_acquire) == round; },
                          monotonic_ns() + kHangNs)) {
        return false;
      }
      ball.store(round + 1, std::memory_order_release);
      other.ring();
    }
    return true;
  };
  std::atomic<bool> partner{false};
  std::jthread thread([&] { partner = play(pong, ping, 1); });
  EXPECT_TRUE(play(ping, pong, 0));
  thread.join();
  EXPECT_TRUE(partner);
}

TEST(Doorbell, WakesAnotherProcess) {
  void* memory =
      mmap(nullptr, sizeof(Doorbell), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& bell = *std::launder(static_cast<Doorbell*>(memory));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(bell.wait_past(0, monotonic_ns() + kHangNs) ? 42 : 1);
  sleep_until(monotonic_ns() + 20 * kMs);  // so that it most likely sleeps
  bell.ring();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  munmap(memory, sizeof(Doorbell));
}

TEST(SleepUntil, IsNeverEarly) {
  sharpen_timers();
  for (const std::int64_t spin_ns : {std::int64_t{0}, kSpinNs, 10 * kMs}) {
    const std::int64_t deadline_ns = monotonic_ns() + 2 * kMs;
    sleep_until(deadline_ns, spin_ns);
    EXPECT_GE(monotonic_ns(), deadline_ns);
  }
  sleep_until(1);  // long past
}

}  // namespace
}  // namespace commfuse
