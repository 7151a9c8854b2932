// SPDX-License-Identifier: Apache-2.0
// Plain collectives over NCCL, asked for in each way that it knows: against the oracle, what is
// refused and how the others go on, and what records say of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "harness/cuda/nccl_memory.h"
#include "harness/cuda/nccl_registration.h"
#include "harness/cuda/nccl_transport.h"
#include "impls/implementation.h"
#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_run.h"
#include "tests/fakecuda/fake_runtime.h"
#include "tests/fakecuda/fake_world.h"
#include "tests/fakecuda/nccl_world.h"

namespace commfuse::fake {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const ShapeCase& shape_named(std::string_view name) {
  return *std::ranges::find(shape_cases(), name, &ShapeCase::name);
}

using BaselineCase = std::tuple<std::string_view, std::int32_t, Issue>;

class NcclBaselines : public testing::TestWithParam<BaselineCase> {};

TEST_P(NcclBaselines, EqualTheOracleWithoutRaces) {
  const auto& [name, ranks, issue] = GetParam();
  const ShapeCase& shape = shape_named(name);
  std::vector<std::string> specs{"plain:collective=registered", "plain",
                                 "plain:collective=symmetric"};
  if (shape.workload == "tpsp/ag_gemm") specs.emplace_back("plain:collective=copy_engine");
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const BackendRun run{Setting::nccl, ranks, seed, issue};
    const Iterations iterations =
        issue == Issue::graph ? Iterations::one_by_one : Iterations::back_to_back;
    std::string mismatch;
    int compared = 0;
    const Verdict verdict = run_backend(run, [&](World& world) {
      const std::string own = run_implementations(
          world, shape, seed == 0 ? DType::bf16 : DType::f32, specs,
          [&](World& group, const Workload& workload) {
            return make_executor(run, group, workload);
          },
          {Stamped::compute_lane, iterations}, compared);
      if (mismatch.empty()) mismatch = own;  // host threads run one at a time
    });
    ASSERT_TRUE(verdict.ok()) << "seed " << seed << ": " << verdict.message;
    ASSERT_EQ(mismatch, "") << "seed " << seed;
    EXPECT_GE(compared, 2 * ranks * static_cast<int>(specs.size()));
  }
}

std::string name_of_case(const testing::TestParamInfo<BaselineCase>& info) {
  const auto& [shape, ranks, issue] = info.param;
  return fmt::format("{}_on_{}{}", shape, ranks, issue == Issue::graph ? "_replayed" : "");
}

INSTANTIATE_TEST_SUITE_P(Called, NcclBaselines,
                         testing::Combine(testing::Values("ag_gemm_even", "mlp_relu_odd"),
                                          testing::Values(2, 3, 4, 8),
                                          testing::Values(Issue::calls)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Replayed, NcclBaselines,
                         testing::Combine(testing::Values("ag_gemm_even", "mlp_relu_odd"),
                                          testing::Values(3), testing::Values(Issue::graph)),
                         name_of_case);

/// One workload, whose plans one executor prepares.
struct Bench {
  Bench(World& group, const BackendRun& run, std::string_view shape)
      : world(group),
        workload(workload_of(shape_named(shape), group.ranks(), DType::f32)),
        executor(make_executor(run, group, workload)) {}

  [[nodiscard]] Plan plan(std::string_view way) const {
    return build_plan(make_implementation(fmt::format("plain:collective={}", way), workload),
                      workload, world.rank());
  }
  /// Why it is not prepared; empty if it is.
  std::string refusal(std::string_view way) {
    try {
      executor->prepare(plan(way));
      return "";
    } catch (const Unsupported& error) {
      return error.what();
    }
  }
  /// The first wrong value of an iteration; empty if there is none.
  std::string run(std::string_view way) {
    const PlanHandle handle = executor->prepare(plan(way));
    load_inputs(*executor, handle, workload, world.rank(), Portion::schedule);
    std::vector<Timeline> timelines(1);
    executor->run(handle, Mode::isolated, timelines);
    return first_mismatch(*executor, handle, workload, world.rank(), Portion::schedule);
  }

  World& world;
  Workload workload;
  std::unique_ptr<CudaExecutor> executor;
};

constexpr BackendRun kNccl{Setting::nccl, 3, 1};

TEST(NcclBaselineRefusals, CopyEnginesReduceNothingAndTheOthersGoOn) {
  const Verdict verdict = run_backend(kNccl, [](World& world) {
    Bench bench(world, kNccl, "gemm_rs_even");
    EXPECT_THAT(bench.refusal("copy_engine"), HasSubstr("copy engines add nothing"));
    for (const std::string_view way : {"symmetric", "default", "registered"}) {
      EXPECT_EQ(bench.run(way), "");
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(NcclBaselineRefusals, OtherTransportsHaveOneWay) {
  const BackendRun run{Setting::ce_ipc, 2, 1};
  const Verdict verdict = run_backend(run, [&](World& world) {
    Bench bench(world, run, "ag_gemm_even");
    for (const std::string_view way : {"registered", "symmetric", "copy_engine"}) {
      EXPECT_EQ(bench.refusal(way), fmt::format("collective={} belongs to transport nccl", way));
    }
    EXPECT_EQ(bench.run("default"), "");
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

// One rank is refused: all of them say so, nothing stays registered, and the others' plans run.
TEST(NcclBaselineRefusals, WhatOneRankIsRefusedNoRankHas) {
  for (const std::string_view way : {"registered", "symmetric", "copy_engine"}) {
    const Verdict verdict = run_backend(kNccl, [&](World& world) {
      Bench bench(world, kNccl, "ag_gemm_even");
      EXPECT_EQ(bench.run("default"), "");
      NcclWorld::current().refused_rank = 1;
      EXPECT_THAT(bench.refusal(way),
                  AllOf(HasSubstr(fmt::format("collective={}: ", way)),
                        HasSubstr("unhandled system error"), HasSubstr("no room to map")));
      world.barrier();
      NcclWorld::current().refused_rank.reset();
      EXPECT_EQ(bench.run("default"), "");
      EXPECT_EQ(bench.run(way), "");  // with the same communicator
    });
    EXPECT_TRUE(verdict.ok()) << verdict.message;
  }
}

TEST(NcclBaselineRefusals, ACommunicatorThatOneRankLacksIsNobodys) {
  const Verdict verdict = run_backend(kNccl, [](World& world) {
    Bench bench(world, kNccl, "ag_gemm_even");
    world.barrier();  // the lanes of all ranks are there
    NcclWorld::current().refused_split = 2;
    EXPECT_THAT(bench.refusal("copy_engine"), HasSubstr("no room for a communicator"));
    world.barrier();
    NcclWorld::current().refused_split.reset();
    EXPECT_EQ(bench.executor->facts()["collectives"], "default");
    EXPECT_EQ(bench.run("copy_engine"), "");  // with a new one
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(NcclBaselineRefusals, ARegistrationThatDoesNothingIsNone) {
  const Verdict verdict = run_backend(kNccl, [](World& world) {
    Bench bench(world, kNccl, "ag_gemm_even");
    NcclWorld::current().registers_nothing = true;
    for (const std::string_view way : {"registered", "symmetric", "copy_engine"}) {
      EXPECT_EQ(bench.refusal(way),
                fmt::format("collective={}: NCCL registers no memory here", way));
    }
    EXPECT_EQ(bench.run("default"), "");
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(NcclBaselineRefusals, MemoryOfOtherSizesIsFound) {
  const Verdict verdict = run_backend(kNccl, [](World& world) {
    NcclCommunicators communicators(world, {});
    communicators.prepare(CollectiveVia::symmetric);
    const NcclMemory memory(8192);
    const MemoryRange range{memory.data(), world.rank() == 1 ? 8192U : 4096U};
    EXPECT_THROW(NcclRegistration(world, communicators.collectives(CollectiveVia::symmetric),
                                  CollectiveVia::symmetric, std::span(&range, 1)),
                 std::runtime_error);
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(NcclBaselineRefusals, AnOldDriverHasNoCopiesOfNccl) {
  FakeDevices devices;
  devices.count = kNccl.ranks;
  devices.driver_version = 12040;
  Machine machine({kNccl.seed});
  const FakeRuntime runtime(devices);
  const Verdict verdict = run_fake_ranks(machine, kNccl.ranks, [&](World& world) {
    CFB_CUDA(cudaSetDevice(world.rank()));
    Bench bench(world, kNccl, "ag_gemm_even");
    EXPECT_EQ(bench.refusal("copy_engine"),
              "collective=copy_engine needs a driver for CUDA 12.5 or newer, this one is for 12.4");
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(NcclBaselineRefusals, APolicyInTheEnvironmentIsRefused) {
  setenv("NCCL_CTA_POLICY", "2", 1);
  std::vector<std::string> refusals;
  const Verdict verdict = run_backend(kNccl, [&](World& world) {
    try {
      const Bench bench(world, kNccl, "ag_gemm_even");
    } catch (const Unsupported& error) {
      refusals.emplace_back(error.what());
    }
  });
  unsetenv("NCCL_CTA_POLICY");
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_THAT(refusals, testing::SizeIs(kNccl.ranks));
  EXPECT_THAT(refusals, testing::Each(HasSubstr("NCCL_CTA_POLICY")));
}

TEST(NcclBaselineRefusals, PlansThatReachOtherPlacesAreFound) {
  const Verdict verdict = run_backend(kNccl, [](World& world) {
    Bench bench(world, kNccl, "ag_gemm_even");
    Plan plan = bench.plan("symmetric");
    for (commfuse::Op& op : plan.ops) {
      auto* const collective = std::get_if<Collective>(&op.work);
      if (collective != nullptr && world.rank() == 1) ++collective->receive.row;
    }
    EXPECT_THROW(bench.executor->prepare(plan), std::runtime_error);
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(NcclBaselineFacts, SayWhichWaysThereAreAndWhatIsNotKnown) {
  setenv("NCCL_ALGO", "Ring", 1);
  const Verdict verdict = run_backend(kNccl, [](World& world) {
    Bench bench(world, kNccl, "ag_gemm_even");
    EXPECT_EQ(bench.run("default"), "");
    auto facts = bench.executor->facts();
    EXPECT_EQ(facts["collectives"], "default");
    EXPECT_EQ(facts["NCCL_ALGO"], "Ring");
    EXPECT_EQ(facts["NCCL_NVLS_ENABLE"], "unset");
    EXPECT_FALSE(facts.contains("registration"));
    EXPECT_EQ(bench.run("registered"), "");
    EXPECT_EQ(bench.run("copy_engine"), "");
    facts = bench.executor->facts();
    EXPECT_EQ(facts["collectives"], "default, registered, copy_engine");
    EXPECT_THAT(facts["registration"], HasSubstr("not known whether NCCL used it"));
    EXPECT_THAT(facts["collective_ctas"], HasSubstr("none for copy_engine"));
  });
  unsetenv("NCCL_ALGO");
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

// Each executor registers its own slab with the communicators of both, and the first ends first.
TEST(NcclBaselineSharing, ExecutorsMayShareCommunicators) {
  const Verdict verdict = run_backend(kNccl, [](World& world) {
    const Device device = device_of(kNccl, world);
    const auto communicators = std::make_shared<NcclCommunicators>(world, commfuse::NcclSettings{});
    const Workload workload = workload_of(shape_named("mlp_relu_odd"), world.ranks(), DType::f32);
    const auto plan = build_plan(make_implementation("plain:collective=symmetric", workload),
                                 workload, world.rank());
    const auto make = [&] {
      return std::make_unique<CudaExecutor>(
          world, device,
          GemmSettings{.deterministic = true, .workspace_bytes = std::size_t{1} << 20},
          workload.tensors, workload.weights,
          std::make_unique<NcclTransport>(world, device, communicators), CudaExecutor::Tracing{});
    };
    auto first = make();
    const auto second = make();
    for (CudaExecutor* executor : {first.get(), second.get()}) {
      const PlanHandle handle = executor->prepare(plan);
      load_inputs(*executor, handle, workload, world.rank(), Portion::schedule);
      std::vector<Timeline> timelines(1);
      executor->run(handle, Mode::isolated, timelines);
      EXPECT_EQ(first_mismatch(*executor, handle, workload, world.rank(), Portion::schedule), "");
      if (executor == first.get()) continue;
      first.reset();
      executor->run(handle, Mode::isolated, timelines);
    }
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

}  // namespace
}  // namespace commfuse::fake
