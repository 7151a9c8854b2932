// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/gpu_compute_model.h"

#include <gtest/gtest.h>

namespace commfuse {
namespace {

/// 10 SMs of tiles of 128 x 128; 1 TFLOP/s, twice that in bf16.
GpuRates small_gpu() {
  GpuRates rates;
  rates.peak_flops_per_second = {1e12, 2e12, 2e12};
  rates.memory_bytes_per_second = 1e15;
  rates.sms = 10;
  return rates;
}

struct GemmCase {
  std::vector<Tensor> tensors;
  Gemm op;
};

GemmCase gemm(std::int32_t m, std::int32_t n, std::int32_t k, DType dtype = DType::f32) {
  GemmCase made;
  made.tensors = {{"d", m, n, dtype}, {"a", m, k, dtype}, {"b", n, k, dtype}, {"c", m, n, dtype}};
  made.op.d = whole(0, made.tensors[0]);
  made.op.a = whole(1, made.tensors[1]);
  made.op.b = whole(2, made.tensors[2]);
  return made;
}

Picoseconds time_of(const GpuRates& rates, const GemmCase& made) {
  return GpuComputeModel(rates).time(made.op, made.tensors);
}

TEST(GpuComputeModel, AFullWaveTakesItsFlopsAtTheAttainableRate) {
  GpuRates rates = small_gpu();
  const double seconds = 2.0 * 1280 * 128 * 1000 / 1e12;
  EXPECT_EQ(time_of(rates, gemm(1280, 128, 1000)), picoseconds(seconds));
  EXPECT_EQ(time_of(rates, gemm(1280, 128, 1000, DType::bf16)), picoseconds(seconds / 2));
  rates.gemm_share = 0.5;
  EXPECT_EQ(time_of(rates, gemm(1280, 128, 1000)), picoseconds(2 * seconds));
}

TEST(GpuComputeModel, OneTileMoreCostsAWave) {
  const Picoseconds wave = time_of(small_gpu(), gemm(1280, 128, 1000));
  EXPECT_EQ(time_of(small_gpu(), gemm(1281, 128, 1000)), 2 * wave);
  EXPECT_EQ(time_of(small_gpu(), gemm(2560, 128, 1000)), 2 * wave);
  EXPECT_EQ(time_of(small_gpu(), gemm(1, 1, 1000)), wave);
}

TEST(GpuComputeModel, StripsAreCutIntoTilesEachOnItsOwn) {
  GemmCase strips = gemm(1280, 128, 1000);
  for (View* view : {&strips.op.d, &strips.op.a}) {
    view->strips = 20;
    view->rows = 64;
    view->row_step = 64;
  }
  EXPECT_EQ(time_of(small_gpu(), strips), 2 * time_of(small_gpu(), gemm(1280, 128, 1000)));
}

TEST(GpuComputeModel, ReadingCCostsWhereMemoryDecides) {
  GpuRates rates = small_gpu();
  rates.memory_bytes_per_second = 1e9;
  GemmCase plain = gemm(256, 256, 16);
  EXPECT_EQ(time_of(rates, plain), picoseconds((256 * 256 + 2 * 256 * 16) * 4 / 1e9));
  GemmCase adds = plain;
  adds.op.c = whole(3, adds.tensors[3]);
  EXPECT_EQ(time_of(rates, adds) - time_of(rates, plain), picoseconds(256 * 256 * 4 / 1e9));
  adds.op.c = adds.op.d;
  EXPECT_EQ(time_of(rates, adds) - time_of(rates, plain), picoseconds(256 * 256 * 4 / 1e9));
}

TEST(GpuComputeModel, OtherOpsTakeTheirBytes) {
  GpuRates rates = small_gpu();
  rates.memory_bytes_per_second = 1e9;
  rates.op_overhead_seconds = 1e-6;
  const std::vector<Tensor> tensors{{"x", 10, 100, DType::bf16}, {"y", 10, 100, DType::bf16}};
  const Copy copy{whole(1, tensors[1]), whole(0, tensors[0])};
  EXPECT_EQ(GpuComputeModel(rates).time(copy, tensors), picoseconds(1e-6 + 4000 / 1e9));
}

TEST(GpuComputeModel, AttentionTakesItsFlopsAtAShareOfThePeak) {
  GpuRates rates = small_gpu();
  rates.attention_share = 0.5;
  const std::vector<Tensor> tensors{{"x", 64, 32, DType::bf16}};
  Attention attention;
  attention.o = attention.q = attention.k = attention.v = whole(0, tensors[0]);
  attention.head_dim = 32;
  EXPECT_EQ(GpuComputeModel(rates).time(attention, tensors),
            picoseconds(4.0 * 64 * 64 * 32 / 1e12));
  AttentionGradient gradient;
  gradient.dq = gradient.dk = gradient.dv = gradient.d_o = attention.o;
  gradient.q = gradient.k = gradient.v = attention.o;
  gradient.head_dim = 32;
  EXPECT_EQ(GpuComputeModel(rates).time(gradient, tensors),
            picoseconds(10.0 * 64 * 64 * 32 / 1e12));
}

TEST(GpuComputeModel, MoreWorkNeverTakesLess) {
  GpuRates rates = small_gpu();
  rates.memory_bytes_per_second = 1e11;
  for (const std::int32_t m : {1, 127, 128, 129, 1280, 5000}) {
    for (const std::int32_t n : {1, 128, 300, 4096}) {
      for (const std::int32_t k : {1, 64, 1000}) {
        const Picoseconds time = time_of(rates, gemm(m, n, k));
        EXPECT_LE(time, time_of(rates, gemm(m + 1, n, k)));
        EXPECT_LE(time, time_of(rates, gemm(m, n + 1, k)));
        EXPECT_LE(time, time_of(rates, gemm(m, n, k + 1)));
        EXPECT_GE(time, picoseconds(2.0 * m * n * k / 1e12)) << "faster than the peak";
      }
    }
  }
}

TEST(GpuComputeModel, WithOneTileForEachElementIsTheIdealMachine) {
  GpuRates rates = small_gpu();
  rates.sms = rates.tile_m = rates.tile_n = 1;
  rates.memory_bytes_per_second = 1e30;
  EXPECT_EQ(time_of(rates, gemm(37, 41, 1000)), picoseconds(2.0 * 37 * 41 * 1000 / 1e12));
}

}  // namespace
}  // namespace commfuse
