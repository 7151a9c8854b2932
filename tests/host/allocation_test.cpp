// SPDX-License-Identifier: Apache-2.0
// A run allocates nothing: every operator new of this program is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "harness/host/host_executor.h"
#include "harness/host/paced_transport.h"
#include "harness/world/thread_world.h"
#include "impls/implementation.h"
#include "impls/transform.h"

namespace {
std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace commfuse {
namespace {

struct AllocationCase {
  const char* name;
  const char* workload;
  const char* implementation;
  DType dtype;
};

class RunAllocatesNothing : public testing::TestWithParam<AllocationCase> {};

TEST_P(RunAllocatesNothing, InEitherModeOnceTimelinesHaveTheirCapacity) {
  constexpr std::int32_t kRanks = 3;
  const auto& param = GetParam();
  const Shape shape{.hidden = 12,
                    .ffn = 24,
                    .heads = 3,
                    .kv_heads = 3,
                    .head_dim = 4,
                    .activation = Activation::swiglu,
                    .causal = true,
                    .tokens = 24,
                    .dtype = param.dtype};
  std::atomic<std::int64_t> before{0};
  run_thread_ranks(kRanks, [&](World& world) {
    const Workload workload = find_workloads(param.workload).front()->build(shape, kRanks);
    HostExecutor executor(world, workload.tensors, workload.weights,
                          std::make_unique<PacedTransport>(world));
    const Plan plan =
        build_plan(make_implementation(param.implementation, workload), workload, world.rank());
    const PlanHandle handle = executor.prepare(plan);
    const PlanHandle quiet = executor.prepare_quiet(without_communication(plan), handle);
    std::vector<Timeline> one(1);
    std::vector<Timeline> three(3);
    std::vector<Timeline> quiet_three(3);
    const auto run_each = [&] {
      executor.run(handle, Mode::isolated, one);
      executor.run(handle, Mode::steady, three);
      executor.run(quiet, Mode::steady, quiet_three);
    };
    run_each();
    world.barrier();
    if (world.rank() == 0) before = allocations.load();
    world.barrier();
    run_each();
    world.barrier();
    if (world.rank() == 0) {
      EXPECT_GT(before, 0);
      EXPECT_EQ(allocations.load() - before, 0);
    }
    world.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RunAllocatesNothing,
    testing::Values(AllocationCase{"plain", "tpsp/mlp", "plain", DType::f32},
                    AllocationCase{"bulk", "tpsp/mlp", "bulk", DType::f32},
                    AllocationCase{"sliced", "tpsp/mlp", "sliced:n=2", DType::f32},
                    AllocationCase{"ring", "tpsp/mlp",
                                   "commfuse:order=ring:m=2:accumulate=epilogue", DType::f32},
                    AllocationCase{"ring_bf16", "tpsp/mlp",
                                   "commfuse:order=ring:m=2:accumulate=add", DType::bf16},
                    AllocationCase{"direct", "tpsp/attention",
                                   "commfuse:order=direct:m=1:accumulate=once", DType::f32}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace commfuse
