// SPDX-License-Identifier: Apache-2.0
// The fake cuBLASLt: what it computes, and in which bytes.
#include <cublasLt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/fakecuda/cublaslt_bench.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using Kind = Verdict::Kind;

TEST(FakeCublasLt, MultipliesColumnMajorWithTransposition) {
  expect_bench(Kind::ok, [](Bench& bench) {
    Gemm gemm;
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(gemm.run(bench.handle, bench.a, bench.b, bench.d, bench.d, bench.stream),
              CUBLAS_STATUS_SUCCESS);
    // rows (1 2 3) and (4 5 6), columns (1 0 1) and (0 1 2)
    EXPECT_THAT(bench.read(bench.d, 4), ElementsAre(4, 10, 8, 17));
  });
}

// A is 2 x 2 with columns (1 2) and (3 4), B with columns (5 6) and (7 8); D is 10 times the
// product.
TEST(FakeCublasLt, EveryTranspositionAndAlpha) {
  const auto product = [](cublasOperation_t trans_a, cublasOperation_t trans_b) {
    std::vector<float> result;
    expect_bench(Kind::ok, [&](Bench& bench) {
      cublasLtMatmulDescOpaque_t operation{};
      cublasLtMatrixLayoutOpaque_t square{};
      cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
      cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a, 4);
      cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b, 4);
      cublasLtMatrixLayoutInit(&square, CUDA_R_32F, 2, 2, 2);
      const float alpha = 10;
      const float beta = 0;
      ASSERT_EQ(
          cublasLtMatmul(bench.handle, &operation, &alpha, bench.buffer({1, 2, 3, 4}), &square,
                         bench.buffer({5, 6, 7, 8}), &square, &beta, bench.d, &square, bench.d,
                         &square, nullptr, nullptr, 0, handle_of(bench.stream)),
          CUBLAS_STATUS_SUCCESS);
      result = bench.read(bench.d, 4);
    });
    return result;
  };
  EXPECT_THAT(product(CUBLAS_OP_N, CUBLAS_OP_N), ElementsAre(230, 340, 310, 460));
  EXPECT_THAT(product(CUBLAS_OP_T, CUBLAS_OP_N), ElementsAre(170, 390, 230, 530));
  EXPECT_THAT(product(CUBLAS_OP_N, CUBLAS_OP_T), ElementsAre(260, 380, 300, 440));
  EXPECT_THAT(product(CUBLAS_OP_T, CUBLAS_OP_T), ElementsAre(190, 430, 220, 500));
}

TEST(FakeCublasLt, AddsBetaTimesCInPlaceAndOutOfPlace) {
  expect_bench(Kind::ok, [](Bench& bench) {
    Gemm gemm;
    gemm.beta = 2;
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    std::byte* c = bench.buffer({1, 2, 3, 4});
    gemm.run(bench.handle, bench.a, bench.b, c, bench.d, bench.stream);
    EXPECT_THAT(bench.read(bench.d, 4), ElementsAre(6, 14, 14, 25));
    gemm.run(bench.handle, bench.a, bench.b, c, c, bench.stream);
    EXPECT_THAT(bench.read(c, 4), ElementsAre(6, 14, 14, 25));
  });
}

TEST(FakeCublasLt, BatchesRowOrderAndGapsBetweenColumns) {
  expect_bench(Kind::ok, [](Bench& bench) {
    Gemm gemm;
    gemm.batch = 2;
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    std::byte* a = bench.buffer({1, 2, 3, 4, 5, 6, 1, 1, 1, 2, 2, 2});
    std::byte* b = bench.buffer({1, 0, 1, 0, 1, 2, 1, 1, 1, 0, 0, 1});
    gemm.run(bench.handle, a, b, bench.d, bench.d, bench.stream);
    EXPECT_THAT(bench.read(bench.d, 8), ElementsAre(4, 10, 8, 17, 3, 6, 1, 2));

    Gemm rows;
    rows.result_ld = 4;
    std::int32_t order = CUBLASLT_ORDER_ROW;
    ASSERT_EQ(rows.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    for (cublasLtMatrixLayout_t layout : {&rows.c, &rows.d}) {
      cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    }
    int count = 0;
    ASSERT_EQ(
        cublasLtMatmulAlgoGetHeuristic(bench.handle, &rows.operation, &rows.a, &rows.b, &rows.c,
                                       &rows.d, &rows.preference, 1, &rows.found, &count),
        CUBLAS_STATUS_SUCCESS);
    std::byte* d = bench.buffer({9, 9, 9, 9, 9, 9});
    rows.run(bench.handle, bench.a, bench.b, d, d, bench.stream);
    EXPECT_THAT(bench.read(d, 6), ElementsAre(4, 8, 9, 9, 10, 17));
    // The gap is nobody's: another stream may write it.
    rows.run(bench.handle, bench.a, bench.b, d, d, bench.stream);
    bench.machine.work(bench.other, {"gap", {}, {{d + 8, 8}}, 0, {}});
  });
}

TEST(FakeCublasLt, BatchesOfResultsMayLieSideBySideButShareNothing) {
  expect_bench(Kind::ok, [](Bench& bench) {
    Gemm gemm;
    gemm.batch = 2;
    gemm.result_ld = 4;
    gemm.result_stride = 2;  // as heads lie in a row
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    std::byte* a = bench.buffer({1, 2, 3, 4, 5, 6, 1, 1, 1, 2, 2, 2});
    std::byte* b = bench.buffer({1, 0, 1, 0, 1, 2, 1, 1, 1, 0, 0, 1});
    std::byte* d = bench.buffer({9, 9, 9, 9, 9, 9, 9, 9});
    gemm.run(bench.handle, a, b, d, d, bench.stream);
    EXPECT_THAT(bench.read(d, 8), ElementsAre(4, 10, 3, 6, 8, 17, 1, 2));
    for (const std::int64_t stride : {1, 3, 5}) {
      gemm.result_stride = stride;
      EXPECT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_INVALID_VALUE) << stride;
    }
  });
}

TEST(FakeCublasLt, ShortFormatsAreRoundedOnceAndTf32ReadsFewerBits) {
  expect_bench(Kind::ok, [](Bench& bench) {
    for (const auto& [type, format, large] : {std::tuple(CUDA_R_16BF, NumberFormat::bf16, 256.0F),
                                              std::tuple(CUDA_R_16F, NumberFormat::f16, 2048.0F)}) {
      Gemm gemm;
      gemm.input = gemm.output = gemm.c_type = type;
      ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
      std::byte* a = bench.buffer({large, 1, 1, 0, 0, 0}, format);
      std::byte* b = bench.buffer({1, 1, 1, 1, 1, 0}, format);
      gemm.run(bench.handle, a, b, bench.d, bench.d, bench.stream);
      EXPECT_THAT(bench.read(bench.d, 4, format), ElementsAre(large + 2, 0, large, 0));
    }

    Gemm tf32;
    tf32.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    ASSERT_EQ(tf32.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    std::byte* wide = bench.buffer({2049, 0, 0, 2051, 0, 0});
    tf32.run(bench.handle, wide, bench.b, bench.d, bench.d, bench.stream);
    EXPECT_THAT(bench.read(bench.d, 4), ElementsAre(2048, 2052, 0, 0));
  });
}

/// Multiplications of two streams, into different results.
void expect_workspaces(Kind kind, bool shared, std::uint32_t schemes,
                       std::int32_t expected_splits) {
  expect_bench(kind, [&](Bench& bench) {
    Gemm gemm;
    gemm.workspace_bytes = 512;
    gemm.schemes = schemes;
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    std::int32_t splits = 0;
    cublasLtMatmulAlgoConfigGetAttribute(&gemm.found.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                         sizeof splits, nullptr);
    EXPECT_EQ(splits, expected_splits);
    std::byte* d = bench.machine.allocate(64, "another d");
    std::byte* second = bench.workspace + (shared ? 0 : 512);
    gemm.run(bench.handle, bench.a, bench.b, bench.d, bench.d, bench.stream, bench.workspace);
    gemm.run(bench.handle, bench.a, bench.b, d, d, bench.other, second);
    EXPECT_THAT(bench.read(d, 4), ElementsAre(4, 10, 8, 17));
  });
}

// Every seed of 20 finds it.
TEST(FakeCublasLt, AWorkspaceSharedByTwoStreamsIsARace) {
  for (const bool split : {true, false}) {
    const std::uint32_t schemes =
        split ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
    expect_workspaces(Kind::race, true, schemes, split ? 2 : 1);
    expect_workspaces(Kind::ok, false, schemes, split ? 2 : 1);
  }
}

TEST(FakeCublasLt, FewerMultiprocessorsMeanMoreWaves) {
  expect_bench(Kind::ok, [](Bench& bench) {
    Gemm gemm;
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    const float all = gemm.found.wavesCount;
    std::int32_t target = 66;
    cublasLtMatmulDescSetAttribute(&gemm.operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target,
                                   sizeof target);
    int count = 0;
    cublasLtMatmulAlgoGetHeuristic(bench.handle, &gemm.operation, &gemm.a, &gemm.b, &gemm.c,
                                   &gemm.d, &gemm.preference, 1, &gemm.found, &count);
    EXPECT_EQ(gemm.found.wavesCount, 2 * all);
  });
}

TEST(FakeCublasLt, CreatesDescriptorsToo) {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  EXPECT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescDestroy(operation), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
  EXPECT_STREQ(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_STREQ(cublasLtGetStatusString(CUBLAS_STATUS_INVALID_VALUE),
               "an unsupported value or parameter was passed to the function");
  EXPECT_STREQ(cublasLtGetStatusName(static_cast<cublasStatus_t>(2)), "unrecognized status");
  EXPECT_GE(cublasLtGetVersion(), 130000U);
}

}  // namespace
}  // namespace commfuse::fake
