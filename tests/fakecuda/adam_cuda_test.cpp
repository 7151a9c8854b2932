// SPDX-License-Identifier: Apache-2.0
// The kernel of Adam's steps.
#include <optional>
#include <utility>
#include <vector>

#include "tests/fakecuda/kernels_bench.h"
#include "tests/fakecuda/launch_log.h"

namespace commfuse::fake {
namespace {

/// The dtypes of a gradient and of a copy for which there is a kernel.
struct StepDtypes {
  DType gradient = DType::f32;
  std::optional<DType> copy;
};

std::vector<StepDtypes> step_dtypes() {
  std::vector<StepDtypes> all;
  for (const DType dtype : kDTypes) {
    all.push_back({dtype, {}});
    all.push_back({dtype, dtype});
    if (is_narrow(dtype)) all.push_back({DType::f32, dtype});
  }
  return all;
}

/// A step between views that view(dtype) makes.
template <class MakeView>
Adam step_between(MakeView view, const StepDtypes& dtypes) {
  Adam op{.new_w = view(DType::f32),
          .new_m = view(DType::f32),
          .new_v = view(DType::f32),
          .w = view(DType::f32),
          .m = view(DType::f32),
          .v = view(DType::f32),
          .g = view(dtypes.gradient),
          .copy = {}};
  if (dtypes.copy) op.copy = view(*dtypes.copy);
  return op;
}

TEST(CudaAdam, MatchesFloat64) {
  for (const StepDtypes& dtypes : step_dtypes()) {
    for (const std::int32_t cols : {7, 16, 24}) {
      expect_fine([&] {
        KernelsBench bench;
        bench.check(
            step_between([&](DType dtype) { return bench.inside(6, cols, dtype); }, dtypes));
        bench.check(
            step_between([&](DType dtype) { return bench.matrix(6, cols, dtype); }, dtypes));
        const auto strips = [&](DType dtype) {
          return View{.tensor = bench.tensors.add_random(13, cols, dtype),
                      .row = 1,
                      .rows = 2,
                      .cols = cols,
                      .strips = 3,
                      .row_step = 4};
        };
        Adam op = step_between(strips, dtypes);
        bench.check(op);
        op.new_w = op.w;
        op.new_m = op.m;
        op.new_v = op.v;
        bench.check(op);
      });
    }
  }
}

TEST(CudaAdam, RepeatsBitForBit) {
  expect_fine([] {
    KernelsBench bench;
    const auto whole_tensor = [&](DType dtype) { return bench.matrix(20, 40, dtype); };
    const Adam op = step_between(whole_tensor, {DType::bf16, DType::bf16});
    bench.tensors.upload(bench.stream);
    const auto results = [&] {
      bench.compute(op);
      bench.tensors.download(bench.stream);
      std::vector<std::vector<float>> all;
      for (const View& view : writes(op)) all.push_back(bench.tensors.values(view.tensor));
      return all;
    };
    const auto first = results();
    EXPECT_EQ(results(), first);
  });
}

TEST(CudaAdam, IsOneKernel) {
  expect_fine([] {
    KernelsBench bench;
    const Adam op = step_between([&](DType dtype) { return bench.matrix(6, 8, dtype); }, {});
    Adam nothing = op;
    for (View Adam::*const view :
         {&Adam::new_w, &Adam::new_m, &Adam::new_v, &Adam::w, &Adam::m, &Adam::v, &Adam::g}) {
      (nothing.*view).rows = 0;
    }
    bench.tensors.upload(bench.stream);
    std::int32_t launched = 0;
    const LaunchLog log([&](const LaunchNote&) { ++launched; });
    const auto expect_launches = [&](const Adam& step, std::int32_t wanted) {
      const LaunchCount count = bench.kernels.launches(step, bench.tensors.storage());
      EXPECT_EQ(std::pair(count.fewest, count.most), std::pair(wanted, wanted));
      launched = 0;
      bench.compute(step);
      EXPECT_EQ(launched, wanted);
    };
    expect_launches(op, 1);
    expect_launches(nothing, 0);
  });
}

TEST(CudaAdam, RefusesOtherDtypes) {
  expect_fine([] {
    KernelsBench bench;
    const auto matrix = [&](DType dtype) { return bench.matrix(2, 8, dtype); };
    const Adam op = step_between(matrix, {DType::bf16, DType::bf16});  // t0 to t7
    const View f16 = matrix(DType::f16);
    const View wide = bench.matrix(3, 8, DType::f32);
    bench.tensors.upload(bench.stream);
    EXPECT_EQ(bench.refusal(op), "");
    for (View Adam::*const view :
         {&Adam::new_w, &Adam::new_m, &Adam::new_v, &Adam::w, &Adam::m, &Adam::v}) {
      Adam narrow = op;
      narrow.*view = op.g;
      EXPECT_EQ(bench.refusal(narrow), "the cuda backend computes no step of Adam with bf16 t6");
    }
    Adam mixed = op;
    mixed.copy = f16;
    EXPECT_EQ(bench.refusal(mixed),
              "the cuda backend computes no fp16 t8 from a step of Adam with bf16 t6");
    Adam misfit = op;
    misfit.m = wide;
    EXPECT_THROW(bench.compute(misfit), std::invalid_argument);
  });
}

}  // namespace
}  // namespace commfuse::fake
