// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/fake_world.h"
#include "tests/fakecuda/seeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>

namespace commfuse::fake {
namespace {

void expect_ranks(std::int32_t ranks, Verdict::Kind kind, const std::string& part,
                  const std::function<void(World&)>& body) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine machine({seed});
    const Verdict verdict = run_fake_ranks(machine, ranks, body);
    EXPECT_EQ(verdict.kind, kind) << verdict.message;
    EXPECT_THAT(verdict.message, testing::HasSubstr(part));
  }
}

std::span<const std::byte> bytes_of(const std::int32_t& value) {
  return std::as_bytes(std::span(&value, 1));
}
std::int32_t value_of(std::span<const std::byte> bytes) {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

TEST(FakeWorld, CollectivesGiveEveryRankWhatItIsDue) {
  expect_ranks(3, Verdict::Kind::ok, "", [](World& world) {
    EXPECT_EQ(world.ranks(), 3);
    EXPECT_EQ(world.host(), "fake");
    EXPECT_TRUE(world.one_node());
    EXPECT_EQ(world.max(-1.0 - world.rank()), -1.0);
    EXPECT_EQ(world.sum(1 << world.rank()), 7);
    EXPECT_EQ(value_of(world.broadcast(bytes_of(world.rank() * 10), 2)), 20);
    const auto all = world.gather(bytes_of(world.rank() * 10), 1);
    ASSERT_EQ(all.size(), world.rank() == 1 ? 3 : 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(value_of(all[i]), static_cast<std::int32_t>(i) * 10);
    }
  });
}

TEST(FakeWorld, SharedMemoryIsSeenByAll) {
  expect_ranks(3, Verdict::Kind::ok, "", [](World& world) {
    const auto size = static_cast<std::size_t>(world.rank()) + 1;
    const auto segment = world.shared(size);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(segment->block(rank).size(), static_cast<std::size_t>(rank) + 1);
    }
    segment->block(world.rank())[0] = std::byte{static_cast<unsigned char>(world.rank() + 40)};
    world.barrier();
    EXPECT_EQ(segment->block(2)[0], std::byte{42});
    world.barrier();
  });
}

TEST(FakeWorld, PartsMeetWithoutTheOthers) {
  expect_ranks(5, Verdict::Kind::ok, "", [](World& world) {
    const std::unique_ptr<World> part = world.split(world.rank() == 2 ? -1 : world.rank() % 2);
    if (world.rank() == 2) {
      EXPECT_EQ(part, nullptr);
      return;  // while the others go on
    }
    EXPECT_EQ(part->ranks(), 2);
    EXPECT_EQ(part->rank(), world.rank() / 3);
    for (int i = 0; i < 3 + world.rank() % 2; ++i) part->barrier();
    EXPECT_EQ(part->sum(world.rank()), 4);
    const std::unique_ptr<World> own = part->split(part->rank());
    EXPECT_EQ(own->ranks(), 1);
    own->idle_barrier();
    EXPECT_EQ(own->sum(world.rank()), world.rank());
  });
}

TEST(FakeWorld, BarriersOrderTheirMembersOnly) {
  static std::byte* memory = nullptr;
  const auto body = [](World& world, bool all) {
    if (world.rank() == 0) memory = Machine::current().allocate(4, "data");
    world.barrier();
    const std::unique_ptr<World> part = world.split(world.rank() / 2);
    if (world.rank() == 0) Machine::current().host_work({"write", {}, {{memory, 4}}, 0, {}});
    part->barrier();
    if (world.rank() == 1) Machine::current().host_work({"write", {}, {{memory, 4}}, 0, {}});
    if (all) world.barrier();
    if (world.rank() == 2) Machine::current().host_work({"write", {}, {{memory, 4}}, 0, {}});
  };
  expect_ranks(3, Verdict::Kind::ok, "", [&](World& world) { body(world, true); });
  expect_ranks(3, Verdict::Kind::race, "rank 2 host write",
               [&](World& world) { body(world, false); });
}

TEST(FakeWorld, ARankThatStaysAwayIsADeadlock) {
  expect_ranks(2, Verdict::Kind::deadlock, "rank 1 host: in barrier", [](World& world) {
    if (world.rank() == 1) world.barrier();
  });
}

TEST(FakeWorld, AbortEndsTheRun) {
  expect_ranks(2, Verdict::Kind::host_error, "rank 1 host: ends all ranks with exit code 5",
               [](World& world) {
                 if (world.rank() == 1) world.abort(5);
                 world.barrier();
               });
}

TEST(FakeWorld, DestructorsMayMeetAfterTheEnd) {
  struct Meets {
    World& world;
    ~Meets() { world.barrier(); }
  };
  expect_ranks(2, Verdict::Kind::host_error, "exit code 5", [](World& world) {
    if (world.rank() == 1) world.abort(5);
    const Meets meets{world};
    EXPECT_THROW(world.sum(1), Stopped);
  });
}

TEST(FakeWorld, AFindingThatAHostThrowsKeepsItsKind) {
  expect_ranks(1, Verdict::Kind::mismatch, "rank 0 host: found",
               [](World&) { throw Finding(Verdict::Kind::mismatch, "found"); });
}

}  // namespace
}  // namespace commfuse::fake
