// SPDX-License-Identifier: Apache-2.0
// The cases of every world on worlds of MPI processes, and what only those have. Run by mpirun; the
// test names and their order are the same on all ranks, so that they stay in step.
#include "harness/world/mpi_world.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include "harness/world/doorbell.h"
#include "harness/world/mpi_session.h"
#include "harness/world/process.h"
#include "tests/world/world_cases.h"

namespace commfuse {
namespace {

class MpiWorlds : public testing::TestWithParam<WorldCase> {};

TEST_P(MpiWorlds, Behave) {
  MpiWorld world;
  GetParam().run(world);
}

INSTANTIATE_TEST_SUITE_P(Cases, MpiWorlds,
                         testing::ValuesIn(world_cases().begin(), world_cases().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(MpiWorld, HasTheLaunchersSize) {
  const MpiWorld world;
  EXPECT_TRUE(launched_by_mpi());
  EXPECT_EQ(launcher_ranks(), world.ranks());
  EXPECT_EQ(launcher_rank(), world.rank());
}

TEST(MpiWorld, GivesTransportsACommunicatorOfItsRanks) {
  MpiWorld world;
  const auto part = world.split(world.rank() % 2);
  const auto& mpi_part = dynamic_cast<const MpiWorld&>(*part);
  int rank = -1;
  int ranks = -1;
  CFB_MPI(MPI_Comm_rank(mpi_part.comm(), &rank));
  CFB_MPI(MPI_Comm_size(mpi_part.comm(), &ranks));
  EXPECT_EQ(rank, part->rank());
  EXPECT_EQ(ranks, part->ranks());
}

// Ranks of different nodes, as far as their world knows.
class ApartWorld : public testing::Test {
 protected:
  // Nobody left a meeting before the last one had come; all share a clock here.
  template <class Meet>
  void check_meeting(Meet meet) {
    for (std::int32_t late = 0; late < world_.ranks(); ++late) {
      if (world_.rank() == late) sleep_until(monotonic_ns() + 5'000'000);
      const auto came = static_cast<double>(monotonic_ns());
      meet();
      const auto left = static_cast<double>(monotonic_ns());
      EXPECT_LE(world_.max(came), -world_.max(-left));
    }
  }
  MpiWorld world_{MPI_COMM_WORLD, SharedMemory::never};
};

TEST_F(ApartWorld, BarriersWaitForAll) {
  check_meeting([&] { world_.barrier(); });
  check_meeting([&] { world_.idle_barrier(); });
}

TEST_F(ApartWorld, SaysWhyItSharesNoMemory) {
  EXPECT_FALSE(world_.one_node());
  try {
    const auto segment = world_.shared(8);
    ADD_FAILURE() << "memory was shared";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the ranks do not share a node");
  }
}

TEST_F(ApartWorld, PartsAreApartToo) {
  const auto part = world_.split(world_.rank() % 2);
  EXPECT_FALSE(part->one_node());
  part->barrier();
  EXPECT_EQ(part->sum(1), part->ranks());
}

int mappings_of_segments() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:commfuse") != std::string::npos) ++count;
  }
  return count;
}

TEST(MpiWorld, SharedMemoryIsUnmapped) {
  MpiWorld world;
  const int before = mappings_of_segments();
  {
    const auto segment = world.shared(10'000);
    EXPECT_EQ(mappings_of_segments(), before + world.ranks());
  }
  EXPECT_EQ(mappings_of_segments(), before);
}

TEST(MpiWorld, ErrorsAreThrownWithEverythingKnown) {
  const MpiWorld world;
  int value = 0;
  try {
    CFB_MPI(MPI_Send(&value, 1, MPI_INT, world.ranks() + 5, 0, world.comm()));
    ADD_FAILURE() << "a message to a rank that does not exist was sent";
  } catch (const LibraryError& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_EQ(error.details().library, "MPI");
    EXPECT_EQ(error.details().code_name, "MPI_ERR_RANK");
    EXPECT_EQ(error.details().rank, world.rank());
    EXPECT_NE(error.details().expression.find("MPI_Send(&value"), std::string::npos);
    EXPECT_NE(error.details().file.find("mpi_world_test.cpp"), std::string::npos);
    EXPECT_FALSE(error.details().text.empty());
    EXPECT_NE(std::string(error.what()).find("MPI_ERR_RANK"), std::string::npos);
  }
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: mpirun -np RANKS %s RANKS\n", argv[0]);
    return EXIT_FAILURE;
  }
  commfuse::MpiSession session;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != std::atoi(argv[1])) {  // else every rank would pass in a world of its own
    std::fprintf(stderr, "%s ranks were started, MPI sees %d\n", argv[1], ranks);
    commfuse::abort_mpi(EXIT_FAILURE);
  }
  const int code = RUN_ALL_TESTS();
  session.finalize();
  return code;
}
