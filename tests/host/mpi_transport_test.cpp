// SPDX-License-Identifier: Apache-2.0
// Started by mpirun: every rank runs every test. The argument is how many ranks were started.
#include "harness/host/mpi_transport.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "harness/host/host_backend.h"
#include "harness/host/host_executor.h"
#include "harness/host/mpi_type.h"
#include "harness/host/paced_transport.h"
#include "harness/world/mpi_session.h"
#include "harness/world/mpi_world.h"
#include "harness/world/thread_world.h"
#include "tests/conformance/collective_cases.h"
#include "tests/conformance/executor_cases.h"

namespace commfuse {
namespace {

class MpiRanks : public testing::TestWithParam<ShapeCase> {
 protected:
  void expect_right(DType dtype, const TransportFactory& make_transport, const LinkSpeed& link) {
    int compared = 0;
    const auto make = [&](World& group, const Workload& workload) {
      auto executor = std::make_unique<HostExecutor>(group, workload.tensors, workload.weights,
                                                     make_transport(group));
      executor->set_link(link);
      return executor;
    };
    EXPECT_EQ(run_all_implementations(world_, GetParam(), dtype, make, {}, compared), "");
    EXPECT_GE(compared, 10);
  }
  MpiWorld world_;
};

TEST_P(MpiRanks, EqualTheOracleOverMpi) { expect_right(DType::f32, make_mpi_transport, {}); }

TEST_P(MpiRanks, EqualTheOracleOverMpiInBf16) { expect_right(DType::bf16, make_mpi_transport, {}); }

TEST_P(MpiRanks, EqualTheOracleOverMpiInFp16) {
  if (GetParam().workload != "tpsp/gemm_rs") GTEST_SKIP() << "one kind that sums is enough";
  expect_right(DType::f16, make_mpi_transport, {});
}

TEST_P(MpiRanks, EqualTheOracleOverTheWireBetweenProcesses) {
  expect_right(DType::f32, [](World& group) { return std::make_unique<PacedTransport>(group); },
               {.bytes_per_second = 100e6, .latency_seconds = 10e-6});
}

INSTANTIATE_TEST_SUITE_P(Shapes, MpiRanks,
                         testing::ValuesIn(shape_cases().begin(), shape_cases().end()),
                         [](const auto& test) { return std::string(test.param.name); });

class MpiCollectives : public testing::Test {
 protected:
  static std::unique_ptr<Executor> make(World& group, const Workload& workload) {
    return std::make_unique<HostExecutor>(group, workload.tensors, workload.weights,
                                          make_mpi_transport(group));
  }
  MpiWorld world_;
};

TEST_F(MpiCollectives, MoveAndAddWhatTheyMust) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    for (const DType dtype : kDTypes) {
      EXPECT_EQ(run_collective(world_, {kind, dtype, Lane::scatter}, make), "");
    }
    EXPECT_EQ(run_collective(world_, {kind, DType::f32, Lane::compute}, make), "");
  }
  const CollectiveCase uneven{.kind = CollectiveKind::all_reduce, .dtype = DType::bf16, .rows = 1};
  EXPECT_EQ(run_collective(world_, uneven, make), "");
}

TEST_F(MpiCollectives, LeaveTheSameBitsOnEveryRank) {
  for (const DType dtype : kDTypes) EXPECT_EQ(run_inexact_all_reduce(world_, dtype, make), "");
}

TEST(MpiTransport, NeedsRanksThatAreProcesses) {
  run_thread_ranks(
      1, [](World& world) { EXPECT_THROW(make_mpi_transport(world), std::invalid_argument); });
}

TEST(MpiType, DescribesStripsInPackedOrder) {
  const Tensor tensor{"T", 6, 5, DType::f32};
  const View view{.row = 1, .rows = 2, .col = 1, .cols = 3, .strips = 2, .row_step = 3};
  const MpiType type = make_view_type(view, tensor);
  std::vector<float> values(30);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<float> packed(12);
  const MpiWorld world;
  CFB_MPI(MPI_Sendrecv(values.data() + 6, 1, type.get(), world.rank(), 0, packed.data(), 12,
                       MPI_FLOAT, world.rank(), 0, world.comm(), MPI_STATUS_IGNORE));
  EXPECT_EQ(packed, (std::vector<float>{6, 7, 8, 11, 12, 13, 21, 22, 23, 26, 27, 28}));
}

TEST(MpiType, CountsBeyondAnInt) {
  const Tensor tensor{"T", 100'000, 100'000, DType::bf16};
  const MpiType type = make_view_type(whole(0, tensor), tensor);
  MPI_Count bytes = 0;
  CFB_MPI(MPI_Type_size_x(type.get(), &bytes));
  EXPECT_EQ(bytes, 20'000'000'000);
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  CFB_MPI(MPI_Type_get_extent_x(type.get(), &lower, &extent));
  EXPECT_EQ(extent, bytes);
}

TEST(MpiType, CountsARunBeyondAnInt) {
  for (const std::int64_t elements : {5'000'000'001, 4'294'967'296}) {
    const MpiType type = make_run_type(elements, DType::bf16);
    MPI_Count bytes = 0;
    CFB_MPI(MPI_Type_size_x(type.get(), &bytes));
    EXPECT_EQ(bytes, elements * 2);
    MPI_Count lower = 0;
    MPI_Count extent = 0;
    CFB_MPI(MPI_Type_get_extent_x(type.get(), &lower, &extent));
    EXPECT_EQ(lower, 0);
    EXPECT_EQ(extent, bytes);
  }
}

/// Opens a channel for a collective over tensors of so many rows. They are never touched, so never
/// there: a refusal comes before anything runs.
void open_large(CollectiveKind kind, std::int32_t sent, std::int32_t received) {
  MpiWorld world;
  const std::vector<Tensor> tensors{{"sent", sent, 50'000, DType::f32},
                                    {"received", received, 50'000, DType::f32}};
  Workload workload;
  workload.ranks = world.ranks();
  workload.tensors = tensors;
  PlanBuilder builder(workload, world.rank());
  builder.collective(Lane::scatter, {kind, whole(0, tensors[0]), whole(1, tensors[1])});
  const Program program(builder.take({}, {}));
  std::vector<std::byte> somewhere(64);
  std::vector<Storage> storages(static_cast<std::size_t>(world.ranks()),
                                Storage(tensors, {somewhere.data(), somewhere.data()}));
  make_mpi_transport(world)->open(program, storages);
}

TEST(MpiTransport, RefusesAReductionOfMoreElementsThanMpiCounts) {
  const std::int32_t rows = 50'000;
  const std::int32_t all = rows * MpiWorld().ranks();
  EXPECT_THROW(open_large(CollectiveKind::reduce_scatter, all, rows), Unsupported);
  EXPECT_THROW(open_large(CollectiveKind::all_reduce, rows, rows), Unsupported);
  EXPECT_NO_THROW(open_large(CollectiveKind::all_to_all, all, all));
  EXPECT_NO_THROW(open_large(CollectiveKind::all_gather, rows, all));
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
