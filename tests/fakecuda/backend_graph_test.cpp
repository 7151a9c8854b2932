// SPDX-License-Identifier: Apache-2.0
// Iterations of the CUDA backend as replays of graphs, on the fakes of its libraries.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/cuda/nccl_communicators.h"
#include "impls/implementation.h"
#include "suite/oracle.h"
#include "tests/conformance/executor_cases.h"
#include "tests/fakecuda/backend_run.h"
#include "tests/fakecuda/seeds.h"

namespace commfuse::fake {
namespace {

const ShapeCase& shape_named(std::string_view name) {
  return *std::ranges::find(shape_cases(), name, &ShapeCase::name);
}

/// Three replays of each plan, of other inputs each.
Verdict replay_all(const BackendRun& run, const ShapeCase& shape, DType dtype,
                   std::string& mismatch, int& compared) {
  return run_backend(run, [&](World& world) {
    const std::string own = run_all_implementations(
        world, shape, dtype,
        [&](World& group, const Workload& workload) { return make_executor(run, group, workload); },
        {Stamped::compute_lane, Iterations::one_by_one}, compared);
    if (mismatch.empty()) mismatch = own;  // host threads run one at a time
  });
}

TEST(CudaExecutorFacts, OfAPlanSayHowItsGemmsFillTheDevice) {
  const BackendRun run{.setting = Setting::ce_ipc};
  std::map<std::string, std::string> facts;
  const Verdict verdict = run_backend(run, [&](World& world) {
    const Workload workload = workload_of(shape_named("gemm_rs_even"), run.ranks, DType::f32);
    const auto executor = make_executor(run, world, workload);
    const PlanHandle plan = executor->prepare(
        build_plan(make_implementation("plain", workload), workload, world.rank()));
    if (world.rank() == 0) facts = executor->plan_facts(plan);
    world.barrier();
  });
  ASSERT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_EQ(facts["gemm_waves"], "0.01 to 0.01");  // one tile, 132 multiprocessors
}

using GraphCase = std::tuple<std::int32_t, Setting>;

class CudaGraphConformance : public testing::TestWithParam<GraphCase> {};

TEST_P(CudaGraphConformance, ReplaysEqualTheOracleWithoutRaces) {
  const auto& [ranks, setting] = GetParam();
  constexpr std::array kShapes{"gemm_rs_even", "mlp_relu_odd", "ag_gemm_odd"};
  for (std::uint64_t seed = 0; seed < conformance_seeds(); ++seed) {
    const DType dtype = kDTypes[(seed + seed / kShapes.size()) % kDTypes.size()];
    const ShapeCase& shape = shape_named(kShapes[seed % kShapes.size()]);
    std::string mismatch;
    int compared = 0;
    const Verdict verdict =
        replay_all({setting, ranks, seed, Issue::graph}, shape, dtype, mismatch, compared);
    ASSERT_TRUE(verdict.ok()) << shape.name << ", seed " << seed << ": " << verdict.message;
    ASSERT_EQ(mismatch, "") << "seed " << seed;
    EXPECT_GE(compared, 15 * ranks);
  }
}

std::string name_of_case(const testing::TestParamInfo<GraphCase>& info) {
  return fmt::format("{}_on_{}", name_of(std::get<1>(info.param)), std::get<0>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaGraphConformance,
                         testing::Combine(testing::Values(2, 3, 4),
                                          testing::Values(Setting::nccl, Setting::ce_ipc,
                                                          Setting::ce_one_card)),
                         name_of_case);

/// One plan over an executor that a test makes; three isolated iterations unless it throws.
class OnePlan {
 public:
  OnePlan(World& world, std::string spec = "commfuse:m=2") : spec_(std::move(spec)) {
    const ShapeCase& shape = shape_named("gemm_rs_even");
    workload_ = find_workloads(shape.workload)
                    .front()
                    ->build(shape_of(shape, world.ranks(), DType::f32), world.ranks());
    plan_ = build_plan(make_implementation(spec_, workload_), workload_, world.rank());
  }
  [[nodiscard]] const Workload& workload() const { return workload_; }
  [[nodiscard]] const Plan& plan() const { return plan_; }

  PlanHandle prepare(Executor& executor, const World& world) const {
    const PlanHandle handle = executor.prepare(plan_);
    for (const Fill& fill : initial_data(workload_, world.rank(), Portion::schedule)) {
      executor.write(handle, fill.view,
                     std::vector<float>(static_cast<std::size_t>(fill.view.elements()), 1.0F));
    }
    return handle;
  }
  static void run(Executor& executor, PlanHandle handle, int times) {
    std::vector<Timeline> timelines(1);
    for (int i = 0; i < times; ++i) executor.run(handle, Mode::isolated, timelines);
  }

 private:
  std::string spec_;
  Workload workload_;
  Plan plan_;
};

struct ValueOperations {
  std::vector<std::string> constant;  // "write .. = 0 or 1", "wait .. == 1"
  std::vector<std::string> others;
};

ValueOperations value_operations(Issue issue, int times) {
  ValueOperations found;
  const BackendRun run{Setting::ce_ipc, 2, 3, issue};
  const Verdict verdict = run_backend(
      run,
      [&](World& world) {
        const OnePlan one(world);
        const auto executor = make_executor(run, world, one.workload());
        OnePlan::run(*executor, one.prepare(*executor, world), times);
      },
      [&](const Machine& machine) {
        for (const TraceEntry& entry : machine.trace()) {
          const std::string& name = entry.name;
          const bool writes = name.starts_with("write ") && name.find(" = ") != std::string::npos;
          const bool waits = name.starts_with("wait ") && !name.starts_with("wait for ");
          if (!writes && !waits) continue;
          const bool constant =
              writes ? name.ends_with(" = 0") || name.ends_with(" = 1") : name.ends_with(" == 1");
          (constant ? found.constant : found.others).push_back(name);
        }
      });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  return found;
}

TEST(CudaGraph, ValueOperationsAreConstantsAndEveryReplayDoesTheSame) {
  const ValueOperations once = value_operations(Issue::graph, 1);
  const ValueOperations thrice = value_operations(Issue::graph, 3);
  EXPECT_FALSE(once.constant.empty());
  EXPECT_THAT(once.others, testing::IsEmpty());
  EXPECT_THAT(thrice.others, testing::IsEmpty());
  EXPECT_EQ(thrice.constant.size(), 3 * once.constant.size());
}

TEST(CudaGraph, ValueOperationsOfHostCallsAreEpochs) {
  const ValueOperations thrice = value_operations(Issue::calls, 3);
  EXPECT_THAT(thrice.others, testing::Contains(testing::EndsWith(" = 3")));
  EXPECT_THAT(thrice.others, testing::Contains(testing::EndsWith(" >= 3")));
  EXPECT_THAT(thrice.constant, testing::Not(testing::Contains(testing::EndsWith(" = 0"))));
}

/// A transport whose channels believe that nothing is replayed.
class EpochsInGraphs final : public CudaTransport {
 public:
  explicit EpochsInGraphs(std::unique_ptr<CudaTransport> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Reach reach() const override { return inner_->reach(); }
  std::unique_ptr<CudaChannel> open(const CudaPlan& plan, std::span<const DeviceStorage> storages,
                                    Issue /*issue*/) override {
    return inner_->open(plan, storages, Issue::calls);
  }
  [[nodiscard]] std::map<std::string, std::string> facts() const override { return {}; }

 private:
  std::unique_ptr<CudaTransport> inner_;
};

Verdict replay_epochs(Setting setting, std::uint64_t seed, int times) {
  const BackendRun run{setting, 3, seed, Issue::graph};
  return run_backend(run, [&](World& world) {
    const OnePlan one(world);
    const Device device = device_of(run, world);
    CudaExecutor executor(
        world, device, GemmSettings{0, true, false}, one.workload().tensors, one.workload().weights,
        std::make_unique<EpochsInGraphs>(make_transport(run, world, device)), {}, Issue::graph);
    OnePlan::run(executor, one.prepare(executor, world), times);
  });
}

// The second replay finds the first one's epochs and waits for nothing.
TEST(CudaGraph, EpochsInAGraphAreRightOnceAndARaceFromThenOn) {
  for (const Setting setting : {Setting::ce_ipc, Setting::ce_one_card}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Verdict once = replay_epochs(setting, seed, 1);
      EXPECT_TRUE(once.ok()) << once.message;
      const Verdict twice = replay_epochs(setting, seed, 2);
      EXPECT_EQ(twice.kind, Verdict::Kind::race) << "seed " << seed << ": " << twice.message;
    }
  }
}

TEST(CudaGraph, SteadyIterationsAreUnsupported) {
  const BackendRun run{Setting::ce_ipc, 2, 0, Issue::graph};
  const Verdict verdict = run_backend(run, [&](World& world) {
    const OnePlan one(world);
    const auto executor = make_executor(run, world, one.workload());
    const PlanHandle handle = one.prepare(*executor, world);
    std::vector<Timeline> timelines(2);
    EXPECT_THROW(executor->run(handle, Mode::steady, timelines), Unsupported);
    OnePlan::run(*executor, handle, 1);  // goes on
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
}

TEST(CudaGraph, HostTimeOfIssuingIsKnownEitherWay) {
  for (const Issue issue : {Issue::calls, Issue::graph}) {
    const BackendRun run{Setting::nccl, 2, 0, issue};
    const Verdict verdict = run_backend(run, [&](World& world) {
      const OnePlan one(world);
      const auto executor = make_executor(run, world, one.workload());
      EXPECT_EQ(executor->issue_ns_of_last_run(), 0);
      OnePlan::run(*executor, one.prepare(*executor, world), 1);
      EXPECT_GT(executor->issue_ns_of_last_run(), 0);
    });
    EXPECT_TRUE(verdict.ok()) << verdict.message;
  }
}

TEST(CudaGraph, TheFakeCapturesNoGroupsOfSeveralStreams) {
  const BackendRun run{Setting::nccl, 2, 0, Issue::graph};
  const Verdict verdict = run_backend(run, [&](World& world) {
    NcclCommunicators communicators(world, {});
    const commfuse::Stream first(0);
    const commfuse::Stream second(0);
    const DeviceMemory memory(8);
    CFB_CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
    CFB_CUDA(ncclGroupStart());
    CFB_CUDA(ncclSend(memory.data(), 4, ncclInt8, 1 - world.rank(),
                      communicators.exchanges(Lane::compute), first));
    CFB_CUDA(ncclRecv(memory.data() + 4, 4, ncclInt8, 1 - world.rank(),
                      communicators.exchanges(Lane::compute), second));
    CFB_CUDA(ncclGroupEnd());
  });
  EXPECT_EQ(verdict.kind, Verdict::Kind::host_error);
  EXPECT_THAT(verdict.message, testing::HasSubstr("no groups of several streams"));
}

}  // namespace
}  // namespace commfuse::fake
