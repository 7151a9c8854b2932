// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/cublaslt_heuristic.h"
#include "tests/fakecuda/kernels_bench.h"

namespace commfuse::fake {
namespace {

struct GemmShape {
  std::int32_t m, n, k;
};

void check_all_forms(KernelsBench& bench, const GemmShape& shape, DType dtype) {
  const auto& [m, n, k] = shape;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int addend : {0, 1, 2}) {
        bench.tensors = {};
        Gemm op{.d = bench.inside(m, n, dtype),
                .a = transpose_a ? bench.inside(k, m, dtype) : bench.inside(m, k, dtype),
                .b = transpose_b ? bench.inside(n, k, dtype) : bench.inside(k, n, dtype),
                .c = {},
                .transpose_a = transpose_a,
                .transpose_b = transpose_b};
        if (addend == 1) op.c = op.d;
        if (addend == 2) op.c = bench.inside(m, n, dtype);
        bench.check(op);
      }
    }
  }
}

TEST(CudaGemm, MatchesFloat64OnOddShapes) {
  for (const DType dtype : kDTypes) {
    expect_fine([&] {
      KernelsBench bench;
      for (const GemmShape& shape : {GemmShape{1, 1, 1}, {1, 7, 5}, {15, 16, 17}, {31, 7, 64}}) {
        check_all_forms(bench, shape, dtype);
      }
    });
  }
}

TEST(CudaGemm, MultipliesTf32WhereAsked) {
  expect_fine([] {
    KernelsBench bench({.tf32 = true});
    // 1 + 2^-12 has more bits than tf32 keeps
    const Gemm op{.d = bench.matrix(1, 1, DType::f32),
                  .a = bench.matrix(1, 1, DType::f32),
                  .b = bench.matrix(1, 1, DType::f32),
                  .c = {}};
    bench.tensors.upload(bench.stream);
    const std::vector<float> one{1.0F};
    const std::vector<float> more{1.0F + 0x1p-12F};
    write_values(bench.tensors.storage(), op.a, more, bench.stream);
    write_values(bench.tensors.storage(), op.b, one, bench.stream);
    bench.compute(op);
    bench.tensors.download(bench.stream);
    EXPECT_EQ(bench.tensors.values(op.d.tensor), one);
  });
}

TEST(CudaGemm, MatchesFloat64OnStrips) {
  for (const DType dtype : kDTypes) {
    expect_fine([&] {
      KernelsBench bench;
      const View a{.tensor = bench.tensors.add_random(24, 9, dtype),
                   .row = 1,
                   .rows = 3,
                   .cols = 9,
                   .strips = 4,
                   .row_step = 6};
      const View b = bench.matrix(5, 9, dtype);
      const View d{.tensor = bench.tensors.add_random(24, 6, dtype),
                   .row = 2,
                   .rows = 3,
                   .col = 1,
                   .cols = 5,
                   .strips = 4,
                   .row_step = 5};
      bench.check(Gemm{.d = d, .a = a, .b = b, .c = {}});
      // cut differently in C
      const View c{.tensor = bench.tensors.add_random(40, 8, dtype),
                   .row = 2,
                   .rows = 6,
                   .col = 1,
                   .cols = 5,
                   .strips = 2,
                   .row_step = 7};
      bench.check(Gemm{.d = d, .a = a, .b = b, .c = c});
    });
  }
}

TEST(CudaGemm, MatchesFloat64OnBatchesOverNAndOfTransposes) {
  for (const DType dtype : kDTypes) {
    expect_fine([&] {
      KernelsBench bench;
      const View d{.tensor = bench.tensors.add_random(6, 20, dtype),
                   .rows = 6,
                   .col = 1,
                   .cols = 4,
                   .strips = 3,
                   .col_step = 6};
      const View b{.tensor = bench.tensors.add_random(20, 9, dtype),
                   .row = 1,
                   .rows = 4,
                   .cols = 9,
                   .strips = 3,
                   .row_step = 6};
      bench.check(Gemm{.d = d, .a = bench.matrix(6, 9, dtype), .b = b, .c = {}});
      const View columns{.tensor = bench.tensors.add_random(7, 24, dtype),
                         .rows = 7,
                         .col = 1,
                         .cols = 4,
                         .strips = 3,
                         .col_step = 8};
      bench.check(Gemm{.d = bench.matrix(12, 5, dtype),
                       .a = columns,
                       .b = bench.matrix(7, 5, dtype),
                       .c = {},
                       .transpose_a = true,
                       .transpose_b = false});
    });
  }
}

TEST(CudaGemm, WritesFp32SumsOfNarrowFactors) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect_fine([&] {
      KernelsBench bench;
      bench.check(Gemm{.d = bench.matrix(5, 4, DType::f32),
                       .a = bench.matrix(5, 300, dtype),
                       .b = bench.matrix(4, 300, dtype),
                       .c = {}});
    });
  }
}

/// The fake splits K wherever it may.
Gemm deep_gemm(KernelsBench& bench) {
  return {.d = bench.matrix(4, 4, DType::f32),
          .a = bench.matrix(4, 256, DType::f32),
          .b = bench.matrix(4, 256, DType::f32),
          .c = {}};
}

/// Kernels of the op on the machine.
std::int64_t kernels_of_deep_gemm(const GemmSettings& settings) {
  const FakeRuntime runtime(FakeDevices{});
  Machine machine({.seed = 0});
  OpId before = 0;
  OpId after = 0;
  const Verdict verdict = run_fake_ranks(machine, 1, [&](World&) {
    KernelsBench bench(settings);
    const Gemm op = deep_gemm(bench);
    bench.tensors.upload(bench.stream);
    bench.kernels.prepare(op, bench.tensors.storage());
    before = machine.host_work({.name = "before", .reads = {}, .writes = {}, .run = [] {}});
    bench.kernels.run(op, bench.tensors.storage());
    after = machine.host_work({.name = "after", .reads = {}, .writes = {}, .run = [] {}});
    bench.tensors.download(bench.stream);
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  return static_cast<std::int64_t>(after - before) - 1;
}

TEST(CudaGemm, SplitsKUnlessBitsMustRepeat) {
  EXPECT_EQ(kernels_of_deep_gemm({.deterministic = true}), 1);
  EXPECT_EQ(kernels_of_deep_gemm({.deterministic = false}), 2);
}

TEST(CudaGemm, InstancesOnTwoStreamsShareNoWorkspace) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Verdict verdict = on_device(
        [] {
          KernelsBench first;
          KernelsBench second;
          const Gemm one = deep_gemm(first);
          const Gemm two = deep_gemm(second);
          first.tensors.upload(first.stream);
          second.tensors.upload(second.stream);
          first.compute(one);
          second.compute(two);
          first.tensors.download(first.stream);
          second.tensors.download(second.stream);
        },
        seed);
    EXPECT_TRUE(verdict.ok()) << verdict.message;
  }
}

TEST(CudaGemm, NeedsAnAlgorithmThatReadsCApart) {
  for (const bool able : {true, false}) {
    const std::string wanted =
        able ? "" : "cuBLASLt has no algorithm for 8 x 8 x 8 bf16, C apart from D";
    expect_fine([&] {
      Machine::current().kept<CublasLtModel>().out_of_place = able;
      KernelsBench bench;
      const auto square = [&] { return bench.matrix(8, 8, DType::bf16); };
      Gemm op{.d = square(), .a = square(), .b = square(), .c = {}};
      op.c = op.d;
      bench.check(op);  // never needs one
      op.c = square();
      bench.tensors.upload(bench.stream);
      EXPECT_EQ(bench.refusal(op), wanted);
    });
  }
}

TEST(CudaGemm, RunsOnlyWhatWasPrepared) {
  expect_fine([] {
    KernelsBench bench;
    const Gemm op = deep_gemm(bench);
    bench.tensors.upload(bench.stream);
    EXPECT_THROW(bench.kernels.run(op, bench.tensors.storage()), std::logic_error);
    bench.tensors.download(bench.stream);
  });
}

TEST(CudaGemm, SparesMultiprocessors) {
  expect_fine([] {
    const auto waves = [](std::int32_t spared) {
      KernelsBench bench({.spared_sms = spared});
      const Gemm op = deep_gemm(bench);  // one tile
      bench.check(op);
      return bench.kernels.waves(op, bench.tensors.storage());
    };
    EXPECT_FLOAT_EQ(waves(0), 1.0F / 132);
    EXPECT_FLOAT_EQ(waves(32), 1.0F / 100);
    EXPECT_THROW(KernelsBench({.spared_sms = 132}), Unsupported);
  });
}

}  // namespace
}  // namespace commfuse::fake
