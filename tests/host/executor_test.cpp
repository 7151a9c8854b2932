// SPDX-License-Identifier: Apache-2.0
#include "harness/host/host_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <tuple>
#include <vector>

#include "harness/host/paced_transport.h"
#include "harness/world/thread_world.h"
#include "impls/implementation.h"
#include "impls/transform.h"
#include "tests/conformance/executor_cases.h"

namespace commfuse {
namespace {

std::unique_ptr<Transport> paced(World& group) { return std::make_unique<PacedTransport>(group); }

using PacedCase = std::tuple<ShapeCase, std::int32_t, DType>;

class PacedImplementations : public testing::TestWithParam<PacedCase> {
 protected:
  static void expect_right(const LinkSpeed& link) {
    const auto& [shape, ranks, dtype] = GetParam();
    std::atomic<int> total{0};
    run_thread_ranks(ranks, [&, &shape = shape, &dtype = dtype](World& world) {
      int compared = 0;
      const auto make = [&](World& group, const Workload& workload) {
        auto executor =
            std::make_unique<HostExecutor>(group, workload.tensors, workload.weights, paced(group));
        executor->set_link(link);
        return executor;
      };
      EXPECT_EQ(run_all_implementations(world, shape, dtype, make, {}, compared), "");
      total += compared;
    });
    EXPECT_GE(total, 10 * ranks);  // plain, bulk, commfuse twice and the bounds fit every shape
  }
};

TEST_P(PacedImplementations, EqualTheOracleOnAnUnlimitedLink) { expect_right({}); }

TEST_P(PacedImplementations, EqualTheOracleOnASlowLink) {
  expect_right({.bytes_per_second = 20e6, .latency_seconds = 30e-6});
}

std::string name_of_case(const testing::TestParamInfo<PacedCase>& info) {
  return std::string(std::get<0>(info.param).name) + "_" +
         std::string(name_of(std::get<2>(info.param))) + "_on_" +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Fp32, PacedImplementations,
                         testing::Combine(testing::ValuesIn(shape_cases().begin(),
                                                            shape_cases().end()),
                                          testing::Values(1, 2, 3, 4), testing::Values(DType::f32)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Bf16, PacedImplementations,
                         testing::Combine(testing::ValuesIn(shape_cases().begin(),
                                                            shape_cases().end()),
                                          testing::Values(3), testing::Values(DType::bf16)),
                         name_of_case);

/// What the wire moves is as long as in bf16: a shape for each kind of compute is enough.
std::vector<ShapeCase> some_shapes() {
  std::vector<ShapeCase> shapes;
  std::ranges::copy_if(shape_cases(), std::back_inserter(shapes), [](const ShapeCase& shape) {
    return shape.name == "gemm_rs_odd" || shape.name == "mlp_swiglu" ||
           shape.name == "attention_causal_grouped";
  });
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(Fp16, PacedImplementations,
                         testing::Combine(testing::ValuesIn(some_shapes()), testing::Values(2, 3),
                                          testing::Values(DType::f16)),
                         name_of_case);

/// A workload of two tensors, the second constant, for plans written by hand.
Workload two_tensors(std::int32_t ranks) {
  Workload workload;
  workload.ranks = ranks;
  workload.tensors = {{"T", 8, 8, DType::f32}, {"W", 8, 8, DType::f32}};
  workload.weights = {1};
  return workload;
}

TEST(HostExecutor, RefusesPlansThatAreNotItsOwn) {
  run_thread_ranks(2, [](World& world) {
    const Workload workload = two_tensors(2);
    HostExecutor executor(world, workload.tensors, workload.weights, paced(world));
    PlanBuilder other(workload, 1 - world.rank());
    EXPECT_THROW(executor.prepare(other.take({}, {})), std::invalid_argument);

    Workload larger = workload;
    larger.tensors.push_back({"more", 1, 1, DType::f32});
    PlanBuilder builder(larger, world.rank());
    EXPECT_THROW(executor.prepare(builder.take({}, {})), std::invalid_argument);
  });
}

TEST(HostExecutor, RefusesToSendWhatLiesInPrivateMemory) {
  run_thread_ranks(2, [](World& world) {
    const Workload workload = two_tensors(2);
    HostExecutor executor(world, workload.tensors, workload.weights, paced(world));
    PlanBuilder builder(workload, world.rank());
    const PlanBuilder::Transfer transfers[] = {
        {.send = world.rank() == 0, .peer = 1 - world.rank(), .view = whole(1, builder.tensor(1))}};
    builder.exchange(Lane::gather, transfers);
    EXPECT_THROW(executor.prepare(builder.take({}, {})), std::invalid_argument);
  });
}

TEST(HostExecutor, RefusesRanksWhoseScratchDiffers) {
  run_thread_ranks(2, [](World& world) {
    const Workload workload = two_tensors(2);
    HostExecutor executor(world, workload.tensors, workload.weights, paced(world));
    PlanBuilder builder(workload, world.rank());
    builder.scratch("landing", 4 + world.rank(), 8, DType::f32);
    const PlanBuilder::Transfer transfers[] = {
        {.send = world.rank() == 0, .peer = 1 - world.rank(), .view = whole(0, builder.tensor(0))}};
    builder.exchange(Lane::gather, transfers);
    EXPECT_THROW(executor.prepare(builder.take({}, {})), std::runtime_error);
  });
}

TEST(HostExecutor, RefusesIterationCountsThatTheModeDoesNotHave) {
  run_thread_ranks(1, [](World& world) {
    const Workload workload = two_tensors(1);
    HostExecutor executor(world, workload.tensors, workload.weights, paced(world));
    PlanBuilder builder(workload, 0);
    const PlanHandle plan = executor.prepare(builder.take({}, {}));
    std::vector<Timeline> timelines(2);
    EXPECT_THROW(executor.run(plan, Mode::isolated, timelines), std::invalid_argument);
    EXPECT_THROW(executor.run(plan, Mode::steady, {}), std::invalid_argument);
  });
}

TEST(HostExecutor, PoisonsEverythingButWeights) {
  run_thread_ranks(1, [](World& world) {
    const Workload workload = two_tensors(1);
    HostExecutor executor(world, workload.tensors, workload.weights, paced(world));
    PlanBuilder builder(workload, 0);
    const TensorId scratch = builder.scratch("S", 2, 2, DType::f32);
    const PlanHandle handle = executor.prepare(builder.take({}, {}));
    const View corners[] = {{.tensor = 0, .rows = 1, .cols = 1},
                            {.tensor = 1, .rows = 1, .cols = 1},
                            {.tensor = scratch, .rows = 1, .cols = 1}};
    const float one = 1;
    for (const View& corner : corners) executor.write(handle, corner, {&one, 1});
    executor.poison(handle);
    std::vector<float> values;
    for (const View& corner : corners) executor.read(handle, corner, {&values.emplace_back(), 1});
    EXPECT_TRUE(std::isnan(values[0]));
    EXPECT_EQ(values[1], 1);
    EXPECT_TRUE(std::isnan(values[2]));
  });
}

TEST(HostExecutor, ComputeSpansSayWhatWasDone) {
  run_thread_ranks(2, [](World& world) {
    const Shape shape{
        .hidden = 8, .ffn = 16, .activation = Activation::relu, .tokens = 16, .dtype = DType::f32};
    const Workload workload = find_workloads("tpsp/mlp").front()->build(shape, 2);
    HostExecutor executor(world, workload.tensors, workload.weights, paced(world));
    const auto add = make_implementation("commfuse:order=ring:m=1:accumulate=add", workload);
    const PlanHandle plan = executor.prepare(build_plan(add, workload, world.rank()));
    std::vector<Timeline> timelines(2);
    executor.run(plan, Mode::steady, timelines);

    EXPECT_EQ(timelines[0].end_ns, timelines[1].start_ns);
    std::int64_t flops = 0;
    int elementwise = 0;
    int overhead = 0;
    int sends = 0;
    int receives = 0;
    for (const Span& span : timelines[1].spans) {
      flops += span.flops;
      elementwise += span.kind == SpanKind::elementwise;
      overhead += span.kind == SpanKind::overhead;
      sends += span.kind == SpanKind::transfer && span.send;
      receives += span.kind == SpanKind::transfer && !span.send;
      if (span.kind == SpanKind::model) {
        EXPECT_EQ(span.lane, 0);
        EXPECT_GE(span.cpu_ns, 0);
        EXPECT_LE(span.cpu_ns, span.end_ns - span.begin_ns);
      }
      if (span.kind == SpanKind::transfer) {
        EXPECT_EQ(span.bytes, 8 * 8 * 4);  // a slice of 8 tokens
        EXPECT_EQ(span.cpu_ns, -1);
      }
    }
    EXPECT_EQ(flops, workload.hardware_flops);
    EXPECT_EQ(elementwise, 2);
    EXPECT_EQ(overhead, 1);
    EXPECT_EQ(sends, 2);  // one slice of X, one of the partial sums
    EXPECT_EQ(receives, 2);
  });
}

}  // namespace
}  // namespace commfuse
