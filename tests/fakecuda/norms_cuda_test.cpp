// SPDX-License-Identifier: Apache-2.0
// Kernels of norms and of gradients.
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/fakecuda/kernels_bench.h"
#include "tests/fakecuda/launch_log.h"

namespace commfuse::fake {
namespace {

constexpr std::array kColumns{7, 16, 24};  // no vectors, some of all dtypes

/// Strips of two rows, apart and aligned.
View strips(KernelsBench& bench, std::int32_t cols, DType dtype) {
  return {.tensor = bench.tensors.add_random(13, cols, dtype),
          .row = 1,
          .rows = 2,
          .cols = cols,
          .strips = 3,
          .row_step = 4};
}

View unaligned_row_of(KernelsBench& bench, const View& x) {
  return bench.inside(1, x.cols, bench.tensors.tensor(x.tensor).dtype);
}

/// Checks ops that `of` makes of a source of views with six rows and one with one row: inside of
/// larger tensors, whole tensors, and strips.
template <class Of>
void check_everywhere(Of of) {
  for (const DType dtype : kDTypes) {
    for (const std::int32_t cols : kColumns) {
      expect_fine([&] {
        KernelsBench bench;
        of(
            bench, [&](std::int32_t wide) { return bench.inside(6, wide * cols, dtype); },
            [&] { return bench.inside(1, cols, dtype); });
        of(
            bench, [&](std::int32_t wide) { return bench.matrix(6, wide * cols, dtype); },
            [&] { return bench.matrix(1, cols, dtype); });
        of(
            bench, [&](std::int32_t wide) { return strips(bench, wide * cols, dtype); },
            [&] { return bench.matrix(1, cols, dtype); });
      });
    }
  }
}

TEST(CudaActivationGradient, MatchesFloat64) {
  for (const Activation kind : {Activation::relu, Activation::gelu, Activation::swiglu}) {
    check_everywhere([&](KernelsBench& bench, auto rows, auto /*row*/) {
      const std::int32_t wide = kind == Activation::swiglu ? 2 : 1;
      const View dy = rows(1);
      const View x = rows(wide);
      bench.check(ActivationGradient{rows(wide), dy, x, kind});
      if (wide == 1) bench.check(ActivationGradient{dy, dy, x, kind});
      bench.check(ActivationGradient{x, dy, x, kind});
    });
  }
}

TEST(CudaNorm, MatchesFloat64) {
  check_everywhere([](KernelsBench& bench, auto rows, auto row) {
    const View x = rows(1);
    const View gamma = row();
    bench.check(Norm{rows(1), x, gamma});
    bench.check(Norm{x, x, gamma});
    bench.check(Norm{x, x, unaligned_row_of(bench, x)});
  });
}

TEST(CudaNormGradient, MatchesFloat64) {
  check_everywhere([](KernelsBench& bench, auto rows, auto row) {
    const View gamma = row();
    const View x = rows(1);
    const View dy = rows(1);
    bench.check(NormGradient{rows(1), dy, x, gamma});
    bench.check(NormGradient{dy, dy, x, gamma});
    bench.check(NormGradient{x, rows(1), x, gamma});
    bench.check(NormGradient{x, dy, x, unaligned_row_of(bench, x)});
  });
}

TEST(CudaGammaGradient, MatchesFloat64) {
  for (const bool adds : {false, true}) {
    check_everywhere([&](KernelsBench& bench, auto rows, auto row) {
      const View x = rows(1);
      bench.check(GammaGradient{row(), rows(1), x, adds});
      bench.check(GammaGradient{unaligned_row_of(bench, x), rows(1), x, adds});
    });
  }
}

TEST(CudaGammaGradient, SumsGroupsOfRowsOfWhichTheLastIsShort) {
  for (const DType dtype : kDTypes) {
    for (const std::int32_t rows : {63, 64, 65, 200}) {
      expect_fine([&] {
        KernelsBench bench;
        bench.check(GammaGradient{bench.matrix(1, 16, dtype), bench.matrix(rows, 16, dtype),
                                  bench.matrix(rows, 16, dtype), true});
      });
    }
  }
}

TEST(CudaGammaGradient, MustBePrepared) {
  expect_fine([] {
    KernelsBench bench;
    const View rows = bench.matrix(6, 8, DType::bf16);
    const GammaGradient op{bench.matrix(1, 8, DType::bf16), rows, rows, false};
    bench.tensors.upload(bench.stream);
    EXPECT_THROW(bench.kernels.run(op, bench.tensors.storage()), std::logic_error);
  });
}

/// What a graph was captured with must not go when a later plan needs more.
TEST(CudaGammaGradient, GraphsKeepTheirWorkspace) {
  expect_fine([] {
    KernelsBench bench;
    const View d = bench.matrix(1, 8, DType::f32);
    const View few = bench.matrix(6, 8, DType::f32);
    const View many = bench.matrix(300, 8, DType::f32);
    const GammaGradient small{d, few, few, false};
    bench.tensors.upload(bench.stream);
    const std::vector<Expected> expected = reference(small, bench.tensors);
    bench.compute(small);  // loads the kernels
    CFB_CUDA(cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeThreadLocal));
    bench.kernels.run(small, bench.tensors.storage());
    cudaGraph_t graph = nullptr;
    CFB_CUDA(cudaStreamEndCapture(bench.stream, &graph));
    cudaGraphExec_t exec = nullptr;
    CFB_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    bench.compute(GammaGradient{d, many, many, false});
    CFB_CUDA(cudaGraphLaunch(exec, bench.stream));
    bench.tensors.download(bench.stream);
    for (std::int64_t col = 0; col < 8; ++col) {
      const Expected& wanted = expected[static_cast<std::size_t>(col)];
      EXPECT_NEAR(bench.tensors.at(d, 0, col), wanted.value, wanted.bound);
    }
    CFB_CUDA(cudaGraphExecDestroy(exec));
    CFB_CUDA(cudaGraphDestroy(graph));
  });
}

TEST(CudaNorms, LaunchWhatATraceMustShow) {
  expect_fine([] {
    KernelsBench bench;
    const View rows = bench.matrix(6, 8, DType::bf16);
    const View row = bench.matrix(1, 8, DType::bf16);
    View nothing = rows;
    nothing.rows = 0;
    bench.tensors.upload(bench.stream);
    std::int32_t launched = 0;
    const LaunchLog log([&](const LaunchNote&) { ++launched; });
    const auto expect_launches = [&](const Compute& op, std::int32_t wanted) {
      const LaunchCount count = bench.kernels.launches(op, bench.tensors.storage());
      EXPECT_EQ(std::pair(count.fewest, count.most), std::pair(wanted, wanted));
      launched = 0;
      bench.compute(op);
      EXPECT_EQ(launched, wanted);
    };
    expect_launches(ActivationGradient{rows, rows, rows}, 1);
    expect_launches(Norm{rows, rows, row}, 1);
    expect_launches(NormGradient{rows, rows, rows, row}, 1);
    expect_launches(GammaGradient{row, rows, rows}, 3);
    expect_launches(ActivationGradient{nothing, nothing, nothing}, 0);
    expect_launches(Norm{nothing, nothing, row}, 0);
    expect_launches(NormGradient{nothing, nothing, nothing, row}, 0);
  });
}

TEST(CudaNorms, TakeOneDtype) {
  expect_fine([] {
    KernelsBench bench;
    const View fine = bench.matrix(1, 8, DType::f32);
    const View bf16 = bench.matrix(1, 8, DType::bf16);
    bench.tensors.upload(bench.stream);
    const char* const reason = "the cuda backend computes no bf16 t1 from fp32 t0";
    EXPECT_EQ(bench.refusal(ActivationGradient{bf16, bf16, fine}), reason);
    EXPECT_EQ(bench.refusal(Norm{bf16, bf16, fine}), reason);
    EXPECT_EQ(bench.refusal(NormGradient{bf16, fine, bf16, bf16}), reason);
    EXPECT_EQ(bench.refusal(GammaGradient{bf16, bf16, fine}), reason);
    const View wide = bench.matrix(2, 8, DType::bf16);
    bench.tensors.upload(bench.stream);
    EXPECT_THROW(bench.compute(Norm{bf16, bf16, wide}), std::invalid_argument);
  });
}

}  // namespace
}  // namespace commfuse::fake
