// SPDX-License-Identifier: Apache-2.0
// What one rank cannot do, no rank does: a refusal that others did not hear of would leave them
// waiting in the next collective step.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/cuda/nccl_transport.h"
#include "impls/implementation.h"
#include "suite/error.h"
#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_run.h"
#include "tests/fakecuda/nccl_world.h"

namespace commfuse::fake {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Setting kSettings[]{Setting::nccl, Setting::ce_ipc, Setting::ce_one_card};

/// The text of the Unsupported that `action` throws; empty if it throws none.
std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  CFB_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

/// A plan of one exchange with a neighbour and scratch to send from and receive in.
struct OwnPlan {
  OwnPlan(const Workload& workload, World& world)
      : builder(workload, world.rank()),
        wide(builder.scratch("wide", 8, 16, DType::f32)),
        narrow(builder.scratch("narrow", 8, 16, DType::bf16)) {}
  Plan take() {
    return builder.take({whole(wide, builder.tensor(wide)), whole(narrow, builder.tensor(narrow))},
                        {});
  }

  PlanBuilder builder;
  TensorId wide;
  TensorId narrow;
};

/// Prepares what make() adds to an own plan, which every rank must refuse with `reason`; then a
/// plan of the workload, which must be right.
void expect_refused_by_all(const BackendRun& run, const std::function<void(OwnPlan&)>& add,
                           const std::string& reason) {
  const Verdict verdict = run_backend(run, [&](World& world) {
    const Workload workload = workload_of(shape_cases().front(), run.ranks, DType::f32);
    const auto executor = make_executor(run, world, workload);
    OwnPlan own(workload, world);
    add(own);
    const Plan refused = own.take();
    EXPECT_THAT(refusal_of([&] { executor->prepare(refused); }), HasSubstr(reason))
        << "rank " << world.rank();
    const PlanHandle handle = executor->prepare(
        build_plan(make_implementation("plain", workload), workload, world.rank()));
    load_inputs(*executor, handle, workload, world.rank(), Portion::schedule);
    std::vector<Timeline> timelines(1);
    executor->run(handle, Mode::isolated, timelines);
    EXPECT_EQ(first_mismatch(*executor, handle, workload, world.rank(), Portion::schedule), "");
  });
  EXPECT_TRUE(verdict.ok()) << name_of(run.setting) << ": " << verdict.message;
}

TEST(OneRank, ThatCannotComputeAPlanLeavesNobodyWaiting) {
  for (const Setting setting : kSettings) {
    expect_refused_by_all(
        {setting, 3, 2},
        [](OwnPlan& own) {
          const std::int32_t next = (own.builder.rank() + 1) % 3;
          const std::int32_t last = (own.builder.rank() + 2) % 3;
          const PlanBuilder::Transfer transfers[]{{true, next, {own.wide, 0, 2, 0, 16}},
                                                  {false, last, {own.wide, 2, 2, 0, 16}}};
          own.builder.exchange(Lane::gather, transfers);
          if (own.builder.rank() != 1) return;
          own.builder.compute(commfuse::Copy{whole(own.wide, own.builder.tensor(own.wide)),
                                             whole(own.narrow, own.builder.tensor(own.narrow))});
        },
        "the cuda backend computes no fp32 wide from bf16 narrow");
  }
}

TEST(OneRank, ThatCannotCopyABlockLeavesNobodyWaiting) {
  for (const Setting setting : {Setting::ce_ipc, Setting::ce_one_card}) {
    expect_refused_by_all(
        {setting, 3, 2},
        [](OwnPlan& own) {
          PlanBuilder::Transfer transfer;
          if (own.builder.rank() == 0) transfer = {true, 1, {own.wide, 0, 2, 0, 4}};
          if (own.builder.rank() == 1) transfer = {false, 0, {own.wide, 0, 4, 0, 2}};
          if (own.builder.rank() < 2) own.builder.exchange(Lane::gather, {&transfer, 1});
        },
        "transport ce cannot copy ");
  }
}

TEST(OneRank, GivesTheMemoryOfARefusedPlanBack) {
  for (const Setting setting : kSettings) {
    const BackendRun run{setting, 2, 2};
    const Verdict verdict = run_backend(run, [&](World& world) {
      const Workload workload = workload_of(shape_cases().front(), run.ranks, DType::f32);
      const auto executor = make_executor(run, world, workload);
      OwnPlan own(workload, world);
      own.builder.compute(commfuse::Copy{whole(own.wide, own.builder.tensor(own.wide)),
                                         whole(own.narrow, own.builder.tensor(own.narrow))});
      const Plan refused = own.take();
      world.barrier();
      const std::size_t before = free_bytes();
      world.barrier();
      EXPECT_THAT(refusal_of([&] { executor->prepare(refused); }), HasSubstr("computes no"));
      world.barrier();
      EXPECT_EQ(free_bytes(), before) << name_of(setting);
      world.barrier();
    });
    EXPECT_TRUE(verdict.ok()) << verdict.message;
  }
}

TEST(OneRank, ThatSharesItsDeviceIsEnoughForNcclToRefuse) {
  const BackendRun run{Setting::nccl, 3, 2};
  const Verdict verdict = run_backend(run, [&](World& world) {
    Device device = device_of(run, world);
    device.ranks_here = world.rank() == 1 ? 1 : 2;  // 0 and 2 share one
    EXPECT_THAT(refusal_of([&] { NcclTransport(world, device, commfuse::NcclSettings{}); }),
                HasSubstr("one rank per device"));
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(OneRank, WhoseMemoryCannotBeOpenedIsNamedAndNothingIsKept) {
  FakeDevices devices;
  devices.count = 2;
  devices.opens_handles = false;
  Machine machine({7});
  const FakeRuntime runtime(devices);
  const Verdict verdict = run_fake_ranks(machine, 2, [&](World& world) {
    CFB_CUDA(cudaSetDevice(world.rank()));
    const std::size_t before = free_bytes();
    PeerMemory memory;
    EXPECT_THAT(refusal_of([&] { memory.allocate(world, 4096, Reach::ipc); }),
                HasSubstr("rank 0 cannot open the memory of rank 1: "));
    EXPECT_EQ(free_bytes(), before);
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(OneRank, WithAWrongNumberOfConnectionsEndsAll) {
  const char* const name = "CUDA_DEVICE_MAX_CONNECTIONS";
  const Verdict verdict = run_backend({Setting::ce_ipc, 3, 2}, [&](World& world) {
    // Ranks are threads here, one at a time: each finds its own setting.
    world.rank() == 1 ? setenv(name, "99", 1) : unsetenv(name);
    EXPECT_THROW(require_devices(world), UsageError) << "rank " << world.rank();
  });
  unsetenv(name);
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(OneRank, WithAnotherNcclIsNamed) {
  const BackendRun run{Setting::nccl, 3, 2};
  const Verdict verdict = run_backend(run, [&](World& world) {
    NcclWorld::current().older_rank = 2;
    EXPECT_THAT(refusal_of([&] { NcclCommunicators(world, {}); }),
                AllOf(HasSubstr("rank 2 on "), HasSubstr("has NCCL 2.27.3 and rank 0 2.")))
        << "rank " << world.rank();
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

}  // namespace
}  // namespace commfuse::fake
