// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device_trace.h"
#include "tests/fakecuda/kernels_bench.h"

namespace commfuse::fake {
namespace {

struct GradientShape {
  std::int32_t tokens = 8;
  std::int32_t heads = 1;
  std::int32_t kv_heads = 1;
  DType dtype = DType::f32;
  DType sums = DType::f32;  // of dk and dv
};

/// Views inside of larger tensors, at offsets that align nothing.
AttentionGradient inside(KernelsBench& bench, const GradientShape& shape) {
  constexpr std::int32_t kHeadDim = 7;
  bench.tensors = {};
  const auto of = [&](std::int32_t heads, DType dtype) {
    return bench.inside(shape.tokens, heads * kHeadDim, dtype);
  };
  const View q = bench.matrix(shape.tokens, shape.heads * kHeadDim, shape.dtype);
  return {.dq = of(shape.heads, shape.dtype),
          .dk = of(shape.kv_heads, shape.sums),
          .dv = of(shape.kv_heads, shape.sums),
          .d_o = of(shape.heads, shape.dtype),
          .q = q,
          .k = of(shape.kv_heads, shape.dtype),
          .v = of(shape.kv_heads, shape.dtype),
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = kHeadDim};
}

TEST(CudaAttentionGradient, MatchesFloat64) {
  for (const DType dtype : kDTypes) {
    for (const DType sums : {dtype, DType::f32}) {
      expect_fine([&] {
        KernelsBench bench;
        for (const Mask mask : {Mask::full, Mask::causal}) {
          for (const auto& [heads, kv_heads] : {std::pair(1, 1), {3, 3}, {4, 2}, {6, 2}}) {
            for (const std::int32_t tokens : {1, 6, 13}) {
              for (const bool adds : {false, true}) {
                AttentionGradient op = inside(bench, {tokens, heads, kv_heads, dtype, sums});
                op.mask = mask;
                op.adds = adds;
                bench.check(op);
              }
            }
          }
        }
      });
    }
  }
}

TEST(CudaAttentionGradient, OfStripsMatchesFloat64) {
  for (const DType dtype : kDTypes) {
    for (const Mask mask : {Mask::full, Mask::causal}) {
      expect_fine([&] {
        KernelsBench bench;
        const auto strips = [&] {
          return View{.tensor = bench.tensors.add_random(17, 32, dtype),
                      .row = 1,
                      .rows = 3,
                      .cols = 32,
                      .strips = 3,
                      .row_step = 5};
        };
        const auto keys = [&](DType of) { return bench.matrix(17, 16, of); };
        bench.check(AttentionGradient{.dq = strips(),
                                      .dk = keys(DType::f32),
                                      .dv = keys(dtype),
                                      .d_o = bench.matrix(9, 32, dtype),
                                      .q = strips(),
                                      .k = keys(dtype),
                                      .v = keys(dtype),
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = 8,
                                      .mask = mask,
                                      .adds = true});
      });
    }
  }
}

TEST(CudaAttentionGradient, MustBePrepared) {
  expect_fine([] {
    KernelsBench bench;
    const auto gradient = [&](std::int32_t tokens) {
      const auto matrix = [&] { return bench.matrix(tokens, 1, DType::bf16); };
      return AttentionGradient{.dq = matrix(),
                               .dk = matrix(),
                               .dv = matrix(),
                               .d_o = matrix(),
                               .q = matrix(),
                               .k = matrix(),
                               .v = matrix()};
    };
    bench.check(gradient(4));
    const AttentionGradient large = gradient(800);
    bench.tensors.upload(bench.stream);
    EXPECT_THROW(bench.kernels.run(large, bench.tensors.storage()), std::logic_error);
    bench.compute(large);
    bench.tensors.download(bench.stream);
  });
}

/// Sums begin at zero in every replay.
TEST(CudaAttentionGradient, IsTheSameWheneverItsGraphIsReplayed) {
  expect_fine([] {
    KernelsBench bench;
    const AttentionGradient op = inside(bench, {6, 4, 2, DType::bf16, DType::bf16});
    bench.tensors.upload(bench.stream);
    const std::vector<Expected> expected = reference(op, bench.tensors);
    bench.compute(op);  // loads the kernels
    CFB_CUDA(cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeThreadLocal));
    bench.kernels.run(op, bench.tensors.storage());
    cudaGraph_t graph = nullptr;
    CFB_CUDA(cudaStreamEndCapture(bench.stream, &graph));
    cudaGraphExec_t exec = nullptr;
    CFB_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int replay = 0; replay < 2; ++replay) CFB_CUDA(cudaGraphLaunch(exec, bench.stream));
    bench.tensors.download(bench.stream);
    std::size_t i = 0;
    for (const View& target : writes(op)) {
      for (std::int64_t row = 0; row < target.total_rows(); ++row) {
        for (std::int64_t col = 0; col < target.cols; ++col, ++i) {
          EXPECT_LE(std::abs(bench.tensors.at(target, row, col) - expected[i].value),
                    expected[i].bound);
        }
      }
    }
    CFB_CUDA(cudaGraphExecDestroy(exec));
    CFB_CUDA(cudaGraphDestroy(graph));
  });
}

TEST(CudaAttentionGradient, LaunchesWhatATraceMustShow) {
  expect_fine([] {
    KernelsBench bench;
    const auto square = [&](DType dtype) { return bench.matrix(8, 8, dtype); };
    AttentionGradient op{.dq = square(DType::bf16),
                         .dk = square(DType::f32),
                         .dv = square(DType::f32),
                         .d_o = square(DType::bf16),
                         .q = square(DType::bf16),
                         .k = square(DType::bf16),
                         .v = square(DType::bf16),
                         .head_dim = 8};
    const View narrow = square(DType::bf16);
    bench.tensors.upload(bench.stream);
    const auto launches = [&] {
      const LaunchCount count = bench.kernels.launches(op, bench.tensors.storage());
      return std::pair(count.fewest, count.most);
    };
    EXPECT_EQ(launches(), std::pair(2 + 6, kAnyNumber));  // zeros; five products and a softmax
    op.adds = true;
    EXPECT_EQ(launches(), std::pair(6, kAnyNumber));
    op.dv = narrow;
    EXPECT_EQ(launches(), std::pair(6 + 1, kAnyNumber));  // the sum is added at the end
    // odd rows: the products of two ranges, a softmax and a rounding
    op.mask = Mask::causal;
    EXPECT_EQ(launches(), std::pair(6 + 12 + 1, kAnyNumber));
  });
}

TEST(CudaAttentionGradient, NamesWhatItCannotServe) {
  expect_fine([] {
    KernelsBench bench;
    const View bf16 = bench.matrix(8, 8, DType::bf16);
    const View f32 = bench.matrix(8, 8, DType::f32);
    bench.tensors.upload(bench.stream);
    EXPECT_EQ(bench.refusal(AttentionGradient{.dq = f32,
                                              .dk = f32,
                                              .dv = f32,
                                              .d_o = bf16,
                                              .q = bf16,
                                              .k = bf16,
                                              .v = bf16,
                                              .head_dim = 8}),
              "the cuda backend computes no q bf16 and t1 fp32");
  });
}

}  // namespace
}  // namespace commfuse::fake
