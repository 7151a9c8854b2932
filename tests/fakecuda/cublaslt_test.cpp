// SPDX-License-Identifier: Apache-2.0
// The fake cuBLASLt: what it computes, what it refuses, and what it finds.
#include <cublasLt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/fakecuda/cublaslt_heuristic.h"
#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/machine.h"

namespace commfuse::fake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Verdict::Kind;

constexpr std::uint64_t kSeeds = 20;

/// A 2 x 3 times 3 x 2 product as a backend writes it, each part of which a test may change.
struct Gemm {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cudaDataType_t input = CUDA_R_32F;
  cudaDataType_t output = CUDA_R_32F;
  cudaDataType_t c_type = CUDA_R_32F;
  cublasOperation_t trans_a = CUBLAS_OP_T;
  std::int64_t ld = 3;         // of A and B
  std::int64_t result_ld = 2;  // of C and D
  std::int32_t batch = 1;
  std::uint64_t workspace_bytes = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment = 256;
  float beta = 0;

  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, c{}, d{};
  cublasLtMatmulPreferenceOpaque_t preference{};
  cublasLtMatmulHeuristicResult_t found{};

  cublasStatus_t prepare(cublasLtHandle_t handle) {
    cublasLtMatmulDescInit(&operation, compute, scale);
    cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a,
                                   sizeof trans_a);
    layout(a, input, 3, ld);
    layout(b, input, 3, ld);
    layout(c, c_type, 2, result_ld);
    layout(d, output, 2, result_ld);
    cublasLtMatmulPreferenceInit(&preference);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, &operation, &a, &b, &c, &d, &preference, 1,
                                          &found, &count);
  }

  cublasStatus_t run(cublasLtHandle_t handle, const void* pa, const void* pb, const void* pc,
                     void* pd, StreamId stream, void* workspace = nullptr) {
    const float alpha = 1;
    return cublasLtMatmul(handle, &operation, &alpha, pa, &a, pb, &b, &beta, pc, &c, pd, &d,
                          &found.algo, workspace, workspace_bytes, handle_of(stream));
  }

 private:
  void layout(cublasLtMatrixLayoutOpaque_t& descriptor, cudaDataType_t type, std::uint64_t rows,
              std::int64_t leading) const {
    const std::int64_t stride = 2 * leading;
    cublasLtMatrixLayoutInit(&descriptor, type, rows, 2, leading);
    cublasLtMatrixLayoutSetAttribute(&descriptor, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                     sizeof batch);
    cublasLtMatrixLayoutSetAttribute(&descriptor, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                     &stride, sizeof stride);
  }
  template <class Value>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }
};

/// One rank with a handle, two streams and operands.
struct Bench {
  explicit Bench(Machine& of) : machine(of) { cublasLtCreate(&handle); }

  std::byte* buffer(const std::vector<float>& values, NumberFormat format = NumberFormat::f32) {
    const std::size_t bytes = values.size() * bytes_of(format);
    std::byte* data = machine.allocate(bytes, "matrix");
    machine.host_work({"fill", {}, {{data, bytes}}, 0, [&] {
                         for (std::size_t i = 0; i < values.size(); ++i) {
                           store(format, data, i, values[i]);
                         }
                       }});
    return data;
  }
  std::vector<float> read(const std::byte* data, std::size_t elements,
                          NumberFormat format = NumberFormat::f32) {
    machine.synchronise_device(0);
    std::vector<float> values;
    machine.host_work({"read", {{data, elements * bytes_of(format)}}, {}, 0, [&] {
                         for (std::size_t i = 0; i < elements; ++i) {
                           values.push_back(load(format, data, i));
                         }
                       }});
    return values;
  }

  Machine& machine;
  cublasLtHandle_t handle = nullptr;
  StreamId stream = machine.create_stream("stream");
  StreamId other = machine.create_stream("other");
  std::byte* a = buffer({1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0});
  std::byte* b = buffer({1, 0, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0});
  std::byte* d = machine.allocate(64, "d");
  std::byte* workspace = machine.allocate(1024, "workspace");
};

void expect_bench(Kind kind, const std::function<void(Bench&)>& body,
                  const std::string& part = "") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Machine machine({seed});
    const Verdict verdict = machine.run(1, [&](std::int32_t) {
      Bench bench(machine);
      body(bench);
    });
    EXPECT_EQ(verdict.kind, kind) << verdict.message;
    EXPECT_THAT(verdict.message, HasSubstr(part));
  }
}

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

TEST(FakeCublasLt, ShortFormatsAreRoundedOnceAndTf32ReadsFewerBits) {
  expect_bench(Kind::ok, [](Bench& bench) {
    Gemm gemm;
    gemm.input = gemm.output = gemm.c_type = CUDA_R_16BF;
    ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    std::byte* a = bench.buffer({256, 1, 1, 0, 0, 0}, NumberFormat::bf16);
    std::byte* b = bench.buffer({1, 1, 1, 1, 1, 0}, NumberFormat::bf16);
    gemm.run(bench.handle, a, b, bench.d, bench.d, bench.stream);
    EXPECT_THAT(bench.read(bench.d, 4, NumberFormat::bf16), ElementsAre(258, 0, 256, 0));

    Gemm tf32;
    tf32.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    ASSERT_EQ(tf32.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
    std::byte* wide = bench.buffer({2049, 0, 0, 2051, 0, 0});
    tf32.run(bench.handle, wide, bench.b, bench.d, bench.d, bench.stream);
    EXPECT_THAT(bench.read(bench.d, 4), ElementsAre(2048, 2052, 0, 0));
  });
}

TEST(FakeCublasLt, RefusesContradictionsAndTypesThatDoNotGoTogether) {
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

TEST(FakeCublasLt, RefusesBuffersThatTheAlgorithmCannotUse) {
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

TEST(FakeCublasLt, AnAlgorithmIsForItsProblemAndNullAsksAgain) {
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

TEST(FakeCublasLt, OutOfPlaceResultsAreACapability) {
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

TEST(FakeCublasLt, FindsPointersThatAreLessAlignedThanClaimed) {
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

TEST(FakeCublasLt, FindsAResultOverItsOperand) {
  expect_bench(
      Kind::race,
      [](Bench& bench) {
        Gemm gemm;
        ASSERT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_SUCCESS);
        gemm.run(bench.handle, bench.a, bench.b, bench.b, bench.b, bench.stream);
      },
      "operand of the same multiplication");
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

TEST(FakeCublasLt, TheHandleEndsAndTheRunEnds) {
  expect_bench(Kind::use_after_free, [](Bench& bench) {
    Gemm gemm;
    EXPECT_EQ(cublasLtDestroy(bench.handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(gemm.prepare(bench.handle), CUBLAS_STATUS_EXECUTION_FAILED);
    EXPECT_EQ(cublasLtCreate(&bench.handle), CUBLAS_STATUS_EXECUTION_FAILED);  // from then on
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
  EXPECT_GE(cublasLtGetVersion(), 130000U);
}

}  // namespace
}  // namespace commfuse::fake
