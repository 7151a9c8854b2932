// SPDX-License-Identifier: Apache-2.0
#include "harness/world/interrupts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "harness/world/doorbell.h"
#include "harness/world/watchdog.h"

namespace commfuse {
namespace {

class InterruptsDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void send_and_hang(int number) {
  kill(getpid(), number);
  for (;;) pause();
}

TEST_F(InterruptsDeathTest, BothSignalsExitWithEleven) {
  const auto run = [](int number) {
    const Interrupts interrupts;
    send_and_hang(number);
  };
  EXPECT_EXIT(run(SIGINT), testing::ExitedWithCode(11),
              "^commfuse-bench: interrupted by SIGINT\n$");
  EXPECT_EXIT(run(SIGTERM), testing::ExitedWithCode(11),
              "^commfuse-bench: interrupted by SIGTERM\n$");
}

TEST_F(InterruptsDeathTest, WatchdogSaysWhere) {
  const auto run = [] {
    Interrupts interrupts;
    Watchdog watchdog(0, "here", std::chrono::hours(1), [](int code) { _exit(code); });
    const auto scope =
        interrupts.handle([&](const Signal& signal) { watchdog.interrupted(signal); });
    const auto phase = watchdog.guard("warm-up");
    send_and_hang(SIGINT);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(11), "interrupted by SIGINT in phase warm-up");
}

TEST_F(InterruptsDeathTest, AScopeThatEndedHandlesNothing) {
  const auto run = [] {
    Interrupts interrupts;
    {
      const auto scope = interrupts.handle([](const Signal&) { _exit(99); });
    }
    send_and_hang(SIGTERM);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(11), "interrupted by SIGTERM");
}

TEST_F(InterruptsDeathTest, FormerActionsComeBack) {
  const auto run = [] {
    { const Interrupts interrupts; }
    send_and_hang(SIGTERM);
  };
  EXPECT_EXIT(run(), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(InterruptsDeathTest, IgnoredToTheEndOfTheProcess) {
  const auto run = [](int number) {
    {
      Interrupts interrupts;
      const auto scope = interrupts.handle([](const Signal&) { _exit(99); });
      interrupts.ignore();
      kill(getpid(), number);
    }
    kill(getpid(), number);
    _exit(5);
  };
  EXPECT_EXIT(run(SIGINT), testing::ExitedWithCode(5), "^$");
  EXPECT_EXIT(run(SIGTERM), testing::ExitedWithCode(5), "^$");
}

TEST(Interrupts, HandlerRunsOnAnOrdinaryThread) {
  Interrupts interrupts;
  Doorbell bell;
  std::string name;  // ordered by the bell
  std::atomic<int> calls{0};
  const auto scope = interrupts.handle([&](const Signal& signal) {
    name = std::string(signal.name) + (signal.from_launcher ? " from the launcher" : "");
    calls.fetch_add(1, std::memory_order_release);
    bell.ring();
  });
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(bell.wait_until([&] { return calls.load(std::memory_order_acquire) == 1; },
                              monotonic_ns() + 60'000'000'000));
  EXPECT_EQ(name, "SIGTERM");
}

TEST(Interrupts, IgnoredSignalsStayIgnored) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGINT, &ignore, &before), 0);
  {
    Interrupts interrupts;
    std::atomic<int> calls{0};
    const auto scope = interrupts.handle([&](const Signal&) { ++calls; });
    kill(getpid(), SIGINT);
    sleep_until(monotonic_ns() + 20'000'000);
    EXPECT_EQ(calls, 0);
  }
  sigaction(SIGINT, &before, nullptr);
}

TEST(Interrupts, ExistOnce) {
  const Interrupts interrupts;
  EXPECT_THROW(Interrupts(), std::logic_error);
}

}  // namespace
}  // namespace commfuse
