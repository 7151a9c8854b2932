// SPDX-License-Identifier: Apache-2.0
// The fake cuBLASLt: what it refuses, and what ends the run.
#include <cublasLt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/fakecuda/cublaslt_bench.h"
#include "tests/fakecuda/cublaslt_heuristic.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using Kind = Verdict::Kind;

TEST(FakeCublasLtRefusals, RefusesContradictionsAndTypesThatDoNotGoTogether) {
  expect_bench(Kind::ok, [](Bench& bench) {
    const auto status = [&](const std::function<void(Gemm&)>& change) {
      Gemm gemm;
      change(gemm);
      return gemm.prepare(bench.handle);
    };
    EXPECT_EQ(status([](Gemm& g) { g.ld = 2; }), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(status([](Gemm& g) { g.result_ld = 1; }), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(status([](Gemm& g) { g.trans_a = CUBLAS_OP_N; }), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(status([](Gemm& g) { g.batch = 0; }), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(status([](Gemm& g) { g.alignment = 0; }), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(status([](Gemm& g) { g.c_type = CUDA_R_16BF; }), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(status([](Gemm& g) { g.output = g.c_type = CUDA_R_16BF; }),
              CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(status([](Gemm& g) { g.scale = CUDA_R_64F; }), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(status([](Gemm& g) { g.compute = CUBLAS_COMPUTE_16F; }), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(status([](Gemm& g) { g.input = CUDA_R_16BF; }), CUBLAS_STATUS_SUCCESS);
    Gemm gemm;
    EXPECT_EQ(gemm.prepare(nullptr), CUBLAS_STATUS_NOT_INITIALIZED);
    std::int64_t wrong_size = 1;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(&gemm.operation, CUBLASLT_MATMUL_DESC_TRANSB,
                                             &wrong_size, sizeof wrong_size),
              CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(nullptr, CUBLASLT_MATMUL_DESC_TRANSB, &wrong_size, 4),
              CUBLAS_STATUS_INVALID_VALUE);
  });
}

TEST(FakeCublasLtRefusals, SaysWhatTheFakeDoesNotHave) {
  expect_bench(Kind::ok, [](Bench& bench) {
    const auto again = [&](Gemm& gemm) {
      int count = 1;
      const cublasStatus_t status =
          cublasLtMatmulAlgoGetHeuristic(bench.handle, &gemm.operation, &gemm.a, &gemm.b, &gemm.c,
                                         &gemm.d, &gemm.preference, 1, &gemm.found, &count);
      EXPECT_EQ(count, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
      return status;
    };
    const auto with = [&](cublasLtMatmulDescAttributes_t attribute, std::int32_t value) {
      Gemm gemm;
      gemm.prepare(bench.handle);
      cublasLtMatmulDescSetAttribute(&gemm.operation, attribute, &value, sizeof value);
      return again(gemm);
    };
    EXPECT_EQ(with(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS),
              CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(with(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE),
              CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(with(CUBLASLT_MATMUL_DESC_TRANSB, 9), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(with(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, -1), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(with(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
    Gemm gemm;
    gemm.prepare(bench.handle);
    std::uint32_t tile = CUBLASLT_MATMUL_TILE_64x64;
    std::int32_t id = 1;
    EXPECT_EQ(cublasLtMatmulAlgoConfigSetAttribute(&gemm.found.algo, CUBLASLT_ALGO_CONFIG_TILE_ID,
                                                   &tile, sizeof tile),
              CUBLAS_STATUS_SUCCESS);
    tile = 0;
    EXPECT_EQ(cublasLtMatmulAlgoConfigGetAttribute(&gemm.found.algo, CUBLASLT_ALGO_CONFIG_TILE_ID,
                                                   &tile, sizeof tile, nullptr),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(tile, CUBLASLT_MATMUL_TILE_64x64);
    EXPECT_EQ(cublasLtMatmulAlgoConfigSetAttribute(&gemm.found.algo, CUBLASLT_ALGO_CONFIG_ID, &id,
                                                   sizeof id),
              CUBLAS_STATUS_INVALID_VALUE);
    const std::uint32_t search = CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID;
    cublasLtMatmulPreferenceSetAttribute(&gemm.preference, CUBLASLT_MATMUL_PREF_SEARCH_MODE,
                                         &search, sizeof search);
    EXPECT_EQ(again(gemm), CUBLAS_STATUS_NOT_SUPPORTED);
  });
}

TEST(FakeCublasLtRefusals, RefusesBuffersThatTheAlgorithmCannotUse) {
  expect_bench(Kind::ok, [](Bench& bench) {
    Gemm gemm;
    gemm.workspace_bytes = 1024;
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_GT(gemm.found.workspaceSize, 0U);
    const auto run = [&](const void* a, const void* c, void* workspace) {
      return gemm.run(bench.handle, a, bench.b, c, bench.d, bench.stream, workspace);
    };
    EXPECT_EQ(run(bench.a, bench.d, nullptr), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(run(nullptr, bench.d, bench.workspace), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(run(bench.a, nullptr, bench.workspace), CUBLAS_STATUS_SUCCESS);  // beta is 0
    gemm.beta = 1;
    EXPECT_EQ(run(bench.a, nullptr, bench.workspace), CUBLAS_STATUS_INVALID_VALUE);
    gemm.workspace_bytes = gemm.found.workspaceSize - 1;
    EXPECT_EQ(run(bench.a, bench.d, bench.workspace), CUBLAS_STATUS_INVALID_VALUE);
  });
}

TEST(FakeCublasLtRefusals, AnAlgorithmIsForItsProblemAndNullAsksAgain) {
  expect_bench(Kind::ok, [](Bench& bench) {
    Gemm gemm;
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    Gemm batched;
    batched.batch = 2;
    ASSERT_EQ(batched.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    std::swap(gemm.found, batched.found);
    EXPECT_EQ(gemm.run(bench.handle, bench.a, bench.b, bench.d, bench.d, bench.stream),
              CUBLAS_STATUS_INVALID_VALUE);
    const float one = 1;
    EXPECT_EQ(cublasLtMatmul(bench.handle, &gemm.operation, &one, bench.a, &gemm.a, bench.b,
                             &gemm.b, &gemm.beta, bench.d, &gemm.c, bench.d, &gemm.d, nullptr,
                             nullptr, 0, handle_of(bench.stream)),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_THAT(bench.read(bench.d, 4), ElementsAre(4, 10, 8, 17));
  });
}

TEST(FakeCublasLtRefusals, OutOfPlaceResultsAreACapability) {
  expect_bench(Kind::ok, [](Bench& bench) {
    for (const bool able : {true, false}) {
      bench.machine.kept<CublasLtModel>().out_of_place = able;
      Gemm gemm;
      ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
      std::int32_t support = -1;
      std::size_t written = 0;
      EXPECT_EQ(cublasLtMatmulAlgoCapGetAttribute(&gemm.found.algo,
                                                  CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT,
                                                  &support, sizeof support, &written),
                CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(support, able ? 1 : 0);
      std::byte* c = bench.buffer({1, 2, 3, 4});
      EXPECT_EQ(gemm.run(bench.handle, bench.a, bench.b, c, bench.d, bench.stream),
                able ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED);
      EXPECT_EQ(gemm.run(bench.handle, bench.a, bench.b, c, c, bench.stream),
                CUBLAS_STATUS_SUCCESS);
    }
  });
}

TEST(FakeCublasLtRefusals, FindsPointersThatAreLessAlignedThanClaimed) {
  const auto body = [](std::uint32_t claimed) {
    return [claimed](Bench& bench) {
      Gemm gemm;
      gemm.alignment = claimed;
      ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
      gemm.run(bench.handle, bench.a + 16, bench.b, bench.d, bench.d, bench.stream);
    };
  };
  expect_bench(Kind::ok, body(16));
  expect_bench(Kind::host_error, body(256),
               "matrix A is aligned to 16 bytes, and the preference claimed 256");
}

TEST(FakeCublasLtRefusals, FindsAResultOverItsOperand) {
  expect_bench(
      Kind::race,
      [](Bench& bench) {
        Gemm gemm;
        ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
        gemm.run(bench.handle, bench.a, bench.b, bench.b, bench.b, bench.stream);
      },
      "operand of the same multiplication");
}

TEST(FakeCublasLtRefusals, TheHandleEndsAndTheRunEnds) {
  expect_bench(Kind::use_after_free, [](Bench& bench) {
    Gemm gemm;
    EXPECT_EQ(cublasLtDestroy(bench.handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_EXECUTION_FAILED);
    EXPECT_EQ(cublasLtCreate(&bench.handle), CUBLAS_STATUS_EXECUTION_FAILED);  // from then on
  });
}

}  // namespace
}  // namespace commfuse::fake
