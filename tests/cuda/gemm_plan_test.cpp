// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/gemm.h"

#include <gtest/gtest.h>

#include <tuple>

#include "harness/cuda/matmul_key.h"
#include "tests/cuda/plan_runner.h"

namespace commfuse {
namespace {

/// Runs the plan, compares with the definition by views, and returns how many products there were.
std::size_t products(PlanTensors& tensors, const Gemm& op) {
  const auto a = [&](std::int64_t row, std::int64_t k) {
    if (op.b.strips > 1) row %= op.d.rows;
    if (!op.transpose_a) return tensors.at(op.a, row, k);
    const auto strip = static_cast<std::int32_t>(row / op.a.cols);
    return tensors.at(op.a.strip(strip), k, row % op.a.cols);
  };
  const auto b = [&](std::int64_t row, std::int64_t k, std::int64_t col) {
    const auto strip = static_cast<std::int32_t>(op.b.strips > 1 ? row / op.d.rows : 0);
    return op.transpose_b ? tensors.at(op.b.strip(strip), col, k)
                          : tensors.at(op.b.strip(strip), k, col);
  };
  EXPECT_EQ(misfit(op), "");
  const DeviceStorage storage = tensors.storage();
  std::vector<double> expected;
  const std::int64_t k = op.transpose_a ? op.a.rows : op.a.cols;
  for (std::int64_t i = 0; i < op.d.total_rows(); ++i) {
    for (std::int64_t j = 0; j < op.d.cols; ++j) {
      double sum = op.c ? tensors.at(*op.c, i, j) : 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += a(i, l) * b(i, l, j);
      }
      expected.push_back(sum);
    }
  }
  const std::vector<Matmul> matmuls = matmuls_of(op, storage);
  for (const Matmul& matmul : matmuls) run_on_host(matmul);
  for (std::int64_t i = 0; i < op.d.total_rows(); ++i) {
    for (std::int64_t j = 0; j < op.d.cols; ++j) {
      const double wanted = expected[static_cast<std::size_t>(i * op.d.cols + j)];
      EXPECT_NEAR(tensors.at(op.d, i, j), wanted, 1e-5) << i << " " << j;
    }
  }
  return matmuls.size();
}

TEST(GemmPlan, PlainViewsAreOneProduct) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int addend : {0, 1, 2}) {
        PlanTensors tensors;
        const auto inside = [&](std::int32_t rows, std::int32_t cols) {
          return View{.tensor = tensors.add_random(rows + 3, cols + 2),
                      .row = 2,
                      .rows = rows,
                      .col = 1,
                      .cols = cols};
        };
        Gemm op{.d = inside(5, 7),
                .a = transpose_a ? inside(4, 5) : inside(5, 4),
                .b = transpose_b ? inside(7, 4) : inside(4, 7),
                .c = {},
                .transpose_a = transpose_a,
                .transpose_b = transpose_b};
        if (addend == 1) op.c = op.d;
        if (addend == 2) op.c = inside(5, 7);
        EXPECT_EQ(products(tensors, op), 1U);
      }
    }
  }
}

TEST(GemmPlan, StripsOfOneDistanceAreABatch) {
  PlanTensors tensors;
  const View a{.tensor = tensors.add_random(24, 9),
               .row = 1,
               .rows = 3,
               .cols = 9,
               .strips = 4,
               .row_step = 6};
  const TensorId target = tensors.add(24, 5);
  const View d{.tensor = target, .row = 2, .rows = 3, .cols = 5, .strips = 4, .row_step = 5};
  const View b = tensors.all(tensors.add_random(5, 9));
  EXPECT_EQ(products(tensors, {.d = d, .a = a, .b = b, .c = {}}), 1U);
  EXPECT_EQ(tensors.written(target), d.elements());
  const Matmul batch = matmuls_of({.d = d, .a = a, .b = b, .c = {}}, tensors.storage()).front();
  EXPECT_EQ(batch.batch, 4);
  EXPECT_EQ(std::tuple(batch.m, batch.n, batch.k), std::tuple(3, 5, 9));
  EXPECT_EQ(std::tuple(batch.a.batch_step, batch.b.batch_step, batch.d.batch_step),
            std::tuple(54, 0, 25));
}

TEST(GemmPlan, StripsThatTouchAreOneProduct) {
  PlanTensors tensors;
  const View a{
      .tensor = tensors.add_random(12, 4), .rows = 3, .cols = 4, .strips = 4, .row_step = 3};
  const View d = tensors.all(tensors.add(12, 5));
  const View b = tensors.all(tensors.add_random(5, 4));
  EXPECT_EQ(products(tensors, {.d = d, .a = a, .b = b, .c = {}}), 1U);
  EXPECT_EQ(matmuls_of({.d = d, .a = a, .b = b, .c = {}}, tensors.storage()).front().batch, 1);
}

TEST(GemmPlan, StripsOfAIntoOnePieceOfDAreABatch) {
  PlanTensors tensors;
  const View a{.tensor = tensors.add_random(24, 9),
               .row = 1,
               .rows = 3,
               .cols = 9,
               .strips = 4,
               .row_step = 6};
  const View d = tensors.all(tensors.add(12, 5));
  const View b = tensors.all(tensors.add_random(9, 5));
  EXPECT_EQ(products(tensors, {.d = d, .a = a, .b = b, .c = {}, .transpose_b = false}), 1U);
}

TEST(GemmPlan, UnequalCutsAreOneProductPerStretch) {
  PlanTensors tensors;
  const View a{.tensor = tensors.add_random(24, 9),
               .row = 1,
               .rows = 4,
               .cols = 9,
               .strips = 3,
               .row_step = 6};
  const View c{.tensor = tensors.add_random(40, 8),
               .row = 2,
               .rows = 6,
               .col = 1,
               .cols = 5,
               .strips = 2,
               .row_step = 7};
  const View d = tensors.all(tensors.add(12, 5));
  const View b = tensors.all(tensors.add_random(5, 9));
  // cuts after rows 4, 6 and 8
  EXPECT_EQ(products(tensors, {.d = d, .a = a, .b = b, .c = c}), 4U);
}

TEST(GemmPlan, UnevenDistancesAreOneProductPerStrip) {
  PlanTensors tensors;
  // three rows each, but C continues after two of them without a gap
  const View a{.tensor = tensors.add_random(24, 9),
               .row = 1,
               .rows = 3,
               .cols = 9,
               .strips = 4,
               .row_step = 6};
  const View c{.tensor = tensors.add_random(40, 5),
               .row = 2,
               .rows = 6,
               .cols = 5,
               .strips = 2,
               .row_step = 8};
  const View d = tensors.all(tensors.add(12, 5));
  const View b = tensors.all(tensors.add_random(5, 9));
  EXPECT_EQ(products(tensors, {.d = d, .a = a, .b = b, .c = c}), 4U);
}

TEST(GemmPlan, StripsThatRunBackwardsAreNoBatch) {
  PlanTensors tensors;
  const View a{.tensor = tensors.add_random(24, 9),
               .row = 18,
               .rows = 3,
               .cols = 9,
               .strips = 4,
               .row_step = -5};
  const View d = tensors.all(tensors.add(12, 5));
  const View b = tensors.all(tensors.add_random(5, 9));
  EXPECT_EQ(products(tensors, {.d = d, .a = a, .b = b, .c = {}}), 4U);
}

TEST(GemmPlan, StripsOfATransposedAreABatch) {
  PlanTensors tensors;
  const View a{.tensor = tensors.add_random(7, 24),
               .rows = 7,
               .col = 1,
               .cols = 4,
               .strips = 3,
               .col_step = 8};
  const View d = tensors.all(tensors.add(12, 5));
  const View b = tensors.all(tensors.add_random(7, 5));
  const Gemm op{.d = d, .a = a, .b = b, .c = {}, .transpose_a = true, .transpose_b = false};
  EXPECT_EQ(products(tensors, op), 1U);
  EXPECT_EQ(matmuls_of(op, tensors.storage()).front().batch, 3);
}

TEST(GemmPlan, StripsOfBAreABatch) {
  PlanTensors tensors;
  const View a = tensors.all(tensors.add_random(6, 9));
  const View b{.tensor = tensors.add_random(20, 9),
               .row = 1,
               .rows = 4,
               .cols = 9,
               .strips = 3,
               .row_step = 6};
  const TensorId target = tensors.add(6, 20);
  const View d{.tensor = target, .rows = 6, .col = 1, .cols = 4, .strips = 3, .col_step = 6};
  const View c{
      .tensor = tensors.add_random(18, 4), .rows = 6, .cols = 4, .strips = 3, .row_step = 6};
  const Gemm op{.d = d, .a = a, .b = b, .c = c};
  EXPECT_EQ(products(tensors, op), 1U);
  EXPECT_EQ(tensors.written(target), d.elements());
  const Matmul batch = matmuls_of(op, tensors.storage()).front();
  EXPECT_EQ(batch.batch, 3);
  EXPECT_EQ(std::tuple(batch.m, batch.n, batch.k), std::tuple(6, 4, 9));
  EXPECT_EQ(std::tuple(batch.a.batch_step, batch.b.batch_step, batch.d.batch_step),
            std::tuple(0, 54, 6));
}

TEST(GemmPlan, StripsOfBThatRunBackwardsAreNoBatch) {
  PlanTensors tensors;
  const View a = tensors.all(tensors.add_random(6, 9));
  const View b{.tensor = tensors.add_random(20, 9),
               .row = 12,
               .rows = 4,
               .cols = 9,
               .strips = 3,
               .row_step = -6};
  const View d{.tensor = tensors.add(6, 12), .rows = 6, .cols = 4, .strips = 3, .col_step = 4};
  EXPECT_EQ(products(tensors, {.d = d, .a = a, .b = b, .c = {}}), 3U);
}

TEST(GemmPlan, ColumnStripsOfDAreABatch) {
  PlanTensors tensors;
  const View a = tensors.all(tensors.add_random(6, 4));
  const View d{
      .tensor = tensors.add(3, 11), .rows = 3, .col = 1, .cols = 5, .strips = 2, .col_step = 5};
  const View b = tensors.all(tensors.add_random(5, 4));
  EXPECT_EQ(products(tensors, {.d = d, .a = a, .b = b, .c = {}}), 1U);
}

TEST(GemmPlan, NothingToWriteIsNoProduct) {
  PlanTensors tensors;
  const View a = tensors.all(tensors.add(0, 4));
  const View d = tensors.all(tensors.add(0, 5));
  const View b = tensors.all(tensors.add(5, 4));
  EXPECT_TRUE(matmuls_of({.d = d, .a = a, .b = b, .c = {}}, tensors.storage()).empty());
}

TEST(GemmPlan, NamesDTypesThatDoNotGoTogether) {
  const auto reason = [](DType a, DType b, DType c, DType d) {
    PlanTensors tensors;
    const auto square = [&](DType dtype) { return tensors.all(tensors.add(2, 2, dtype)); };
    const Gemm op{.d = square(d), .a = square(a), .b = square(b), .c = square(c)};
    return unsupported_dtypes(op, tensors.storage());
  };
  constexpr DType kF = DType::f32;
  constexpr DType kB = DType::bf16;
  EXPECT_EQ(reason(kF, kF, kF, kF), "");
  EXPECT_EQ(reason(kB, kB, kB, kB), "");
  EXPECT_EQ(reason(kB, kB, kF, kF), "");
  EXPECT_EQ(reason(kB, kF, kF, kF), "a bf16 and b fp32");
  EXPECT_EQ(reason(kF, kF, kB, kB), "a fp32 and d bf16");
  EXPECT_EQ(reason(kB, kB, kB, kF), "c bf16 and d fp32");
  EXPECT_EQ(reason(kB, kB, kB, DType::f16), "a bf16 and d fp16");
}

TEST(MatmulKeys, AlignmentIsTrueOfEveryMatrixOfTheBatch) {
  const auto alignment = [](std::uintptr_t address, std::int64_t step, std::int64_t batch) {
    return alignment_of({reinterpret_cast<std::byte*>(address), 7, step}, batch, DType::bf16);
  };
  EXPECT_EQ(alignment(4096, 0, 1), 256U);
  EXPECT_EQ(alignment(4096 + 128, 0, 1), 128U);
  EXPECT_EQ(alignment(4096 + 2, 0, 1), 2U);
  EXPECT_EQ(alignment(4096, 24, 2), 16U);
  EXPECT_EQ(alignment(4096, 24, 1), 256U);
  EXPECT_EQ(alignment(4096 + 8, 24, 2), 8U);
  EXPECT_EQ(alignment(4096, 0, 2), 256U);
}

TEST(MatmulKeys, TellWhatAnAlgorithmDependsOn) {
  alignas(256) std::array<std::byte, 1024> memory{};
  Matmul plain{.m = 2,
               .n = 3,
               .k = 4,
               .a = {memory.data(), 4},
               .b = {memory.data(), 4},
               .c = {},
               .d = {memory.data(), 3}};
  const MatmulKey key = key_of(plain);
  EXPECT_EQ(key, key_of(plain));
  Matmul elsewhere = plain;
  elsewhere.a.data += 256;
  EXPECT_EQ(key, key_of(elsewhere));
  elsewhere.a.data += 16;
  EXPECT_NE(key, key_of(elsewhere));
  Matmul in_place = plain;
  in_place.c = in_place.d;
  EXPECT_EQ(key_of(in_place).addend, MatmulKey::Addend::in_place);
  Matmul apart = plain;
  apart.c = {memory.data() + 512, 3};
  EXPECT_EQ(key_of(apart).addend, MatmulKey::Addend::other);
  EXPECT_NE(key_of(apart), key_of(in_place));
  EXPECT_NE(key, key_of(in_place));
}

}  // namespace
}  // namespace commfuse
