// SPDX-License-Identifier: Apache-2.0
// Own kernels, and what is counted and refused.
#include <utility>

#include "harness/cuda/device_trace.h"
#include "tests/fakecuda/kernels_bench.h"

namespace commfuse::fake {
namespace {

TEST(CudaElementwise, MatchesFloat64) {
  for (const DType dtype : kDTypes) {
    expect_fine([&] {
      KernelsBench bench;
      for (const Activation kind : {Activation::relu, Activation::gelu, Activation::swiglu}) {
        for (const std::int32_t cols : {7, 16, 24}) {
          const std::int32_t wide = kind == Activation::swiglu ? 2 * cols : cols;
          bench.tensors = {};
          bench.check(Elementwise{
              .y = bench.inside(5, cols, dtype), .x = bench.inside(5, wide, dtype), .kind = kind});
          bench.check(Elementwise{
              .y = bench.matrix(5, cols, dtype), .x = bench.matrix(5, wide, dtype), .kind = kind});
        }
      }
    });
  }
}

TEST(CudaElementwise, MayBeInPlaceAndOfStrips) {
  for (const DType dtype : kDTypes) {
    expect_fine([&] {
      KernelsBench bench;
      const View x{.tensor = bench.tensors.add_random(20, 16, dtype),
                   .row = 1,
                   .rows = 3,
                   .cols = 16,
                   .strips = 3,
                   .row_step = 6};
      bench.check(Elementwise{.y = x, .x = x, .kind = Activation::gelu});
      bench.check(Elementwise{.y = bench.matrix(9, 16, dtype), .x = x, .kind = Activation::relu});
    });
  }
}

TEST(CudaResidual, MatchesFloat64InPlaceAndOfStrips) {
  for (const DType dtype : kDTypes) {
    for (const std::int32_t cols : {7, 16, 24}) {
      expect_fine([&] {
        KernelsBench bench;
        const auto strips = [&] {
          return View{.tensor = bench.tensors.add_random(20, cols, dtype),
                      .row = 1,
                      .rows = 2,
                      .cols = cols,
                      .strips = 3,
                      .row_step = 6};
        };
        const View x = strips();
        const View r = strips();
        const View rows = bench.inside(6, cols, dtype);
        bench.check(Residual{.y = bench.matrix(6, cols, dtype), .x = x, .r = r});
        bench.check(Residual{.y = rows, .x = bench.matrix(6, cols, dtype), .r = r});
        bench.check(Residual{.y = x, .x = x, .r = bench.matrix(6, cols, dtype)});
        bench.check(Residual{.y = r, .x = rows, .r = r});
      });
    }
  }
}

TEST(CudaAccumulate, MatchesFloat64) {
  for (const DType dtype : kDTypes) {
    for (const std::int32_t cols : {7, 16}) {
      expect_fine([&] {
        KernelsBench bench;
        const View touching{.tensor = bench.tensors.add_random(12, cols, dtype),
                            .rows = 4,
                            .cols = cols,
                            .strips = 3,
                            .row_step = 4};
        const View apart{.tensor = bench.tensors.add_random(30, cols + 1, dtype),
                         .row = 2,
                         .rows = 4,
                         .col = 1,
                         .cols = cols,
                         .strips = 3,
                         .row_step = 9};
        for (const View& terms : {touching, apart, apart.strip(1)}) {
          const View d = bench.inside(4, cols, dtype);
          bench.check(Accumulate{.d = d, .a = bench.matrix(4, cols, dtype), .terms = terms});
          bench.check(Accumulate{.d = d, .a = d, .terms = terms});
        }
        const View cut{.tensor = bench.tensors.add_random(9, cols, dtype),
                       .row = 1,
                       .rows = 2,
                       .cols = cols,
                       .strips = 2,
                       .row_step = 4};
        bench.check(Accumulate{.d = cut, .a = cut, .terms = touching});
      });
    }
  }
}

TEST(CudaCopy, IsExactBetweenAnyViews) {
  for (const DType dtype : kDTypes) {
    expect_fine([&] {
      KernelsBench bench;
      for (const std::int32_t cols : {1, 7, 8, 16}) {
        const View strips{.tensor = bench.tensors.add_random(30, cols + 8, dtype),
                          .row = 1,
                          .rows = 2,
                          .cols = cols,
                          .strips = 4,
                          .row_step = 7,
                          .col_step = 1};
        bench.check(Copy{.d = bench.matrix(8, cols, dtype), .s = strips});
        bench.check(Copy{.d = bench.inside(8, cols, dtype), .s = strips});
      }
    });
  }
}

TEST(CudaCopy, RoundsToNarrowDtypes) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect_fine([&] {
      KernelsBench bench;
      for (const std::int32_t cols : {1, 7, 8, 16}) {
        const View strips{.tensor = bench.tensors.add_random(30, cols + 8, DType::f32),
                          .row = 1,
                          .rows = 2,
                          .cols = cols,
                          .strips = 4,
                          .row_step = 7};
        bench.check(Copy{.d = bench.matrix(8, cols, dtype), .s = strips});
        bench.check(Copy{.d = bench.inside(8, cols, dtype), .s = strips});
        EXPECT_NE(bench.refusal(Copy{.d = strips, .s = bench.matrix(8, cols, dtype)}), "");
      }
    });
  }
}

// ---- what is counted and refused ----

TEST(CudaKernelsLaunches, AreWhatATraceMustShow) {
  expect_fine([] {
    KernelsBench bench;
    const auto square = [&] { return bench.matrix(8, 8, DType::bf16); };
    const Copy copy{.d = square(), .s = square()};
    const Gemm gemm{.d = square(), .a = square(), .b = square(), .c = {}};
    Attention attention{.o = square(), .q = square(), .k = square(), .v = square(), .head_dim = 8};
    bench.tensors.upload(bench.stream);
    const auto launches = [&](const Compute& op) {
      const LaunchCount count = bench.kernels.launches(op, bench.tensors.storage());
      return std::pair(count.fewest, count.most);
    };
    EXPECT_EQ(launches(copy), std::pair(1, 1));
    EXPECT_EQ(launches(Residual{square(), square(), square()}), std::pair(1, 1));
    EXPECT_EQ(launches(gemm), std::pair(1, kAnyNumber));
    EXPECT_EQ(launches(attention), std::pair(3, kAnyNumber));
    // even rows: two products and a softmax; odd rows: four, a softmax and a rounding
    attention.mask = Mask::causal;
    EXPECT_EQ(launches(attention), std::pair(9, kAnyNumber));
  });
}

TEST(CudaKernelsLaunches, AreNoneWhereThereIsNothingToWrite) {
  expect_fine([] {
    KernelsBench bench;
    View nothing = bench.matrix(8, 8, DType::bf16);
    nothing.rows = 0;
    const View b = bench.matrix(8, 8, DType::bf16);
    bench.tensors.upload(bench.stream);
    for (const Compute& op :
         {Compute{Copy{.d = nothing, .s = nothing}},
          Compute{Elementwise{.y = nothing, .x = nothing}},
          Compute{Residual{.y = nothing, .x = nothing, .r = nothing}},
          Compute{Accumulate{.d = nothing, .a = nothing, .terms = nothing}},
          Compute{Gemm{.d = nothing, .a = nothing, .b = b, .c = {}}},
          Compute{Attention{.o = nothing, .q = nothing, .k = b, .v = b, .head_dim = 8}}}) {
      EXPECT_EQ(bench.kernels.launches(op, bench.tensors.storage()).most, 0);
      bench.compute(op);
    }
    bench.tensors.download(bench.stream);
  });
}

TEST(CudaKernelsRefusals, NameTheReason) {
  expect_fine([] {
    KernelsBench bench;
    const View f32 = bench.matrix(8, 8, DType::f32);
    const View bf16 = bench.matrix(8, 8, DType::bf16);
    bench.tensors.upload(bench.stream);
    EXPECT_EQ(bench.refusal(Copy{.d = f32, .s = bf16}),
              "the cuda backend computes no fp32 t0 from bf16 t1");
    EXPECT_EQ(bench.refusal(Elementwise{.y = bf16, .x = f32}),
              "the cuda backend computes no bf16 t1 from fp32 t0");
    EXPECT_EQ(bench.refusal(Residual{.y = bf16, .x = bf16, .r = f32}),
              "the cuda backend computes no bf16 t1 from fp32 t0");
    EXPECT_EQ(bench.refusal(Accumulate{.d = bf16, .a = bf16, .terms = f32}),
              "the cuda backend computes no bf16 t1 from fp32 t0");
    EXPECT_EQ(bench.refusal(Gemm{.d = f32, .a = f32, .b = bf16, .c = {}}),
              "the cuda backend computes no a fp32 and b bf16");
    const View f16 = bench.matrix(8, 8, DType::f16);
    bench.tensors.upload(bench.stream);
    EXPECT_EQ(bench.refusal(Copy{.d = bf16, .s = f16}),
              "the cuda backend computes no bf16 t1 from fp16 t2");
    EXPECT_EQ(bench.refusal(Gemm{.d = f16, .a = bf16, .b = bf16, .c = {}}),
              "the cuda backend computes no a bf16 and d fp16");
    const View row{.tensor = f32.tensor, .rows = 1, .cols = 8};
    EXPECT_THROW(bench.compute(Copy{.d = f32, .s = row}), std::invalid_argument);
  });
}

}  // namespace
}  // namespace commfuse::fake
