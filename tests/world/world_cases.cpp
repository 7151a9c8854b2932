// SPDX-License-Identifier: Apache-2.0
#include "tests/world/world_cases.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/world/cores.h"
#include "harness/world/doorbell.h"
#include "harness/world/shared_segment.h"

namespace commfuse {
namespace {

// Long enough that only a lost wake-up reaches it.
constexpr std::int64_t kHangNs = 60'000'000'000;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The zeroed bytes of a block as an object that zero bytes are a valid value of.
template <class T>
T& in_block(const SharedSegment& segment, std::int32_t rank) {
  return *std::launder(reinterpret_cast<T*>(segment.block(rank).data()));
}

void knows_its_place(World& world) {
  EXPECT_GE(world.rank(), 0);
  EXPECT_LT(world.rank(), world.ranks());
  EXPECT_FALSE(world.host().empty());
  EXPECT_TRUE(world.one_node());
  EXPECT_EQ(world.sum(1), world.ranks());
  EXPECT_EQ(world.sum(world.rank()), std::int64_t{world.ranks()} * (world.ranks() - 1) / 2);
}

// Every rank counts, then meets the others: nobody may leave with less than all counts, nor may a
// fast rank's next count be there before a slow one has looked.
template <class Meet>
void check_meeting(World& world, Meet meet) {
  const auto segment = world.shared(sizeof(std::atomic<std::int32_t>));
  auto& count = in_block<std::atomic<std::int32_t>>(*segment, 0);
  for (std::int32_t round = 1; round <= 200; ++round) {
    count.fetch_add(1, std::memory_order_relaxed);
    meet();
    EXPECT_EQ(count.load(std::memory_order_relaxed), round * world.ranks());
    meet();
  }
}

void barrier_waits_for_all(World& world) {
  check_meeting(world, [&] { world.barrier(); });
}

void idle_barrier_waits_for_all(World& world) {
  check_meeting(world, [&] { world.idle_barrier(); });
}

void max_of_any_sign(World& world) {
  const std::int32_t last = world.ranks() - 1;
  EXPECT_EQ(world.max(-1.5 - world.rank()), -1.5);
  EXPECT_EQ(world.max(world.rank() == last ? 1e300 : -1e300), 1e300);
  for (std::int32_t highest = 0; highest <= last; ++highest) {
    EXPECT_EQ(world.max(world.rank() == highest ? 7.25 : 7.0), 7.25);
  }
}

void sum_beyond_32_bits(World& world) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  EXPECT_EQ(world.sum(kLarge + world.rank()),
            world.ranks() * kLarge + std::int64_t{world.ranks()} * (world.ranks() - 1) / 2);
  EXPECT_EQ(world.sum(world.rank() == 0 ? -kLarge : 0), -kLarge);
}

void broadcast_from_every_root(World& world) {
  for (std::int32_t root = 0; root < world.ranks(); ++root) {
    // Other ranks' bytes must not matter, nor their length.
    const std::string own(static_cast<std::size_t>(3 * world.rank() + 1), char('a' + world.rank()));
    const std::string expected(static_cast<std::size_t>(3 * root + 1), char('a' + root));
    EXPECT_EQ(text_of(world.broadcast(bytes_of(own), root)), expected);
  }
  EXPECT_TRUE(world.broadcast({}, 0).empty());
}

void gather_of_unequal_sizes(World& world) {
  for (std::int32_t root = 0; root < world.ranks(); ++root) {
    // Rank 0 has nothing to give.
    const std::string own(static_cast<std::size_t>(1000 * world.rank()), char('a' + world.rank()));
    const auto all = world.gather(bytes_of(own), root);
    if (world.rank() != root) {
      EXPECT_TRUE(all.empty());
      continue;
    }
    EXPECT_EQ(all.size(), static_cast<std::size_t>(world.ranks()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      EXPECT_EQ(text_of(all[rank]), std::string(1000 * rank, static_cast<char>('a' + rank)));
    }
  }
}

void split_keeps_order_and_leaves_out(World& world) {
  // Every third rank is in no part; the others form two.
  const std::int32_t color = world.rank() % 3 == 2 ? -1 : world.rank() % 3;
  const std::unique_ptr<World> part = world.split(color);
  EXPECT_EQ(part == nullptr, color < 0);
  if (part != nullptr) {
    EXPECT_EQ(part->rank(), world.rank() / 3);
    EXPECT_EQ(part->ranks(), (world.ranks() - color + 2) / 3);
    EXPECT_EQ(part->sum(color), std::int64_t{part->ranks()} * color);
    EXPECT_EQ(part->max(world.rank()), color + 3 * (part->ranks() - 1));
    part->barrier();
    const auto segment = part->shared(8);
    segment->block(part->rank())[0] = std::byte(10 + world.rank());
    part->idle_barrier();
    for (std::int32_t rank = 0; rank < part->ranks(); ++rank) {
      EXPECT_EQ(segment->block(rank)[0], std::byte(10 + color + 3 * rank));
    }
    part->barrier();
  }
  // The world as a whole works as before.
  EXPECT_EQ(world.sum(1), world.ranks());
}

void split_of_a_split(World& world) {
  const auto half = world.split(world.rank() * 2 < world.ranks() ? 0 : 1);
  const auto single = half->split(half->rank());
  EXPECT_EQ(single->ranks(), 1);
  EXPECT_EQ(single->rank(), 0);
  single->barrier();
  EXPECT_EQ(single->sum(5), 5);
  half->barrier();
}

void nobody_in_a_part(World& world) { EXPECT_EQ(world.split(-7), nullptr); }

void shared_memory_is_seen_both_ways(World& world) {
  // Sizes differ, none is a multiple of a page, rank 0 has the largest.
  const auto size_of = [&](std::int32_t rank) {
    return static_cast<std::size_t>(world.ranks() - rank) * 5000 + 3;
  };
  const auto segment = world.shared(size_of(world.rank()));
  for (std::int32_t rank = 0; rank < world.ranks(); ++rank) {
    const auto block = segment->block(rank);
    EXPECT_EQ(block.size(), size_of(rank));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0U);
    EXPECT_EQ(block.front(), std::byte{0});
    EXPECT_EQ(block.back(), std::byte{0});
  }
  world.barrier();
  // Each rank writes its place in everybody's block, then reads what everybody wrote in its own.
  const auto place = static_cast<std::size_t>(world.rank());
  for (std::int32_t rank = 0; rank < world.ranks(); ++rank) {
    segment->block(rank)[place] = std::byte(100 + world.rank() + 2 * rank);
  }
  world.barrier();
  for (std::int32_t writer = 0; writer < world.ranks(); ++writer) {
    EXPECT_EQ(segment->block(world.rank())[static_cast<std::size_t>(writer)],
              std::byte(100 + writer + 2 * world.rank()));
  }
  world.barrier();
}

void shared_memory_may_be_empty(World& world) {
  const auto segment = world.shared(world.rank() == world.ranks() - 1 ? 64 : 0);
  for (std::int32_t rank = 0; rank < world.ranks(); ++rank) {
    EXPECT_EQ(segment->block(rank).size(), rank == world.ranks() - 1 ? 64U : 0U);
  }
}

// One rank's failure is everybody's, in the same words: no rank goes on with half a segment.
void process_segments_exist_everywhere_or_nowhere(World& world) {
  const std::int32_t last = world.ranks() - 1;
  try {
    // More than any file can have.
    const auto segment = share_between_processes(
        world, world.rank() == last ? std::numeric_limits<std::size_t>::max() : 64);
    ADD_FAILURE() << "a segment without end was made";
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("rank " + std::to_string(last) + " on " + world.host() + ": ftruncate"),
              std::string::npos)
        << text;
  }
  EXPECT_EQ(share_between_processes(world, 8)->block(last).size(), 8U);
}

void shared_memory_outlives_its_owners_view(World& world) {
  auto segment = world.shared(64);
  if (world.rank() == 0) segment.reset();
  world.barrier();
  if (world.rank() != 0) segment->block(0)[static_cast<std::size_t>(world.rank())] = std::byte{1};
  world.barrier();
}

// Rings a token around: each rank sleeps until its predecessor rang.
void doorbells_ring_across_ranks(World& world) {
  struct Mailbox {
    std::atomic<std::uint32_t> token;
    Doorbell bell;
  };
  const auto segment = world.shared(sizeof(Mailbox));
  auto& own = in_block<Mailbox>(*segment, world.rank());
  auto& next = in_block<Mailbox>(*segment, (world.rank() + 1) % world.ranks());
  const auto pass_on = [&](std::uint32_t token) {
    next.token.store(token, std::memory_order_release);
    next.bell.ring();
  };
  for (std::uint32_t lap = 1; lap <= 100; ++lap) {
    if (world.rank() == 0) pass_on(lap);
    EXPECT_TRUE(
        own.bell.wait_until([&] { return own.token.load(std::memory_order_acquire) >= lap; },
                            monotonic_ns() + kHangNs));
    if (world.rank() != 0) pass_on(lap);
  }
  world.barrier();
}

void counts_cores_of_the_node(World& world) {
  const NodeCores node = node_cores(world);
  EXPECT_EQ(node.ranks, world.ranks());
  EXPECT_GE(node.cores, cores_of_this_thread());
  EXPECT_EQ(world.max(node.cores), node.cores);
}

constexpr std::array kCases{
    WorldCase{"knows_its_place", &knows_its_place},
    WorldCase{"barrier_waits_for_all", &barrier_waits_for_all},
    WorldCase{"idle_barrier_waits_for_all", &idle_barrier_waits_for_all},
    WorldCase{"max_of_any_sign", &max_of_any_sign},
    WorldCase{"sum_beyond_32_bits", &sum_beyond_32_bits},
    WorldCase{"broadcast_from_every_root", &broadcast_from_every_root},
    WorldCase{"gather_of_unequal_sizes", &gather_of_unequal_sizes},
    WorldCase{"split_keeps_order_and_leaves_out", &split_keeps_order_and_leaves_out},
    WorldCase{"split_of_a_split", &split_of_a_split},
    WorldCase{"nobody_in_a_part", &nobody_in_a_part},
    WorldCase{"shared_memory_is_seen_both_ways", &shared_memory_is_seen_both_ways},
    WorldCase{"shared_memory_may_be_empty", &shared_memory_may_be_empty},
    WorldCase{"process_segments_exist_everywhere_or_nowhere",
              &process_segments_exist_everywhere_or_nowhere},
    WorldCase{"shared_memory_outlives_its_owners_view", &shared_memory_outlives_its_owners_view},
    WorldCase{"doorbells_ring_across_ranks", &doorbells_ring_across_ranks},
    WorldCase{"counts_cores_of_the_node", &counts_cores_of_the_node},
};

}  // namespace

std::span<const WorldCase> world_cases() { return kCases; }

}  // namespace commfuse
