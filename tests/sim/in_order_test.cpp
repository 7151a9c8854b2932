// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/in_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace commfuse {
namespace {

TEST(InOrder, TakesInOrderOnAnyNumberOfThreads) {
  for (const std::size_t threads : {0, 1, 2, 5}) {
    std::vector<std::size_t> taken;
    make_in_order(
        50, threads,
        [](std::size_t i) {
          if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return i * i;
        },
        [&](std::size_t i, std::size_t square) {
          EXPECT_EQ(square, i * i);
          taken.push_back(i);
        });
    ASSERT_EQ(taken.size(), 50U);
    for (std::size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i], i);
  }
}

TEST(InOrder, KeepsFewItemsWaiting) {
  std::atomic<std::size_t> made{0};
  make_in_order(
      40, 2, [&](std::size_t i) { return ++made, i; },
      [&](std::size_t i, std::size_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_LE(made, i + 1 + 2 * 2);
      });
}

TEST(InOrder, ThrowsTheFirstErrorByItsNumber) {
  for (const std::size_t threads : {1, 3}) {
    std::size_t taken = 0;
    try {
      make_in_order(
          20, threads,
          [](std::size_t i) {
            if (i >= 5) throw std::runtime_error(std::to_string(i));
            return i;
          },
          [&](std::size_t, std::size_t) { ++taken; });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "5");
    }
    EXPECT_EQ(taken, 5U);
  }
}

}  // namespace
}  // namespace commfuse
