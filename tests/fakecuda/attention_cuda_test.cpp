// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/fakecuda/kernels_bench.h"

namespace commfuse::fake {
namespace {

/// Views inside of larger tensors, at offsets that align nothing.
Attention inside(KernelsBench& bench, std::int32_t tokens, std::int32_t heads,
                 std::int32_t kv_heads, DType dtype) {
  constexpr std::int32_t kHeadDim = 7;
  bench.tensors = {};
  const std::int32_t width = heads * kHeadDim;
  const std::int32_t kv_width = kv_heads * kHeadDim;
  return {.o = bench.inside(tokens, width, dtype),
          .q = bench.matrix(tokens, width, dtype),
          .k = bench.inside(tokens, kv_width, dtype),
          .v = bench.inside(tokens, kv_width, dtype),
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = kHeadDim};
}

TEST(CudaAttention, MatchesFloat64) {
  for (const DType dtype : kDTypes) {
    expect_fine([&] {
      KernelsBench bench;
      for (const Mask mask : {Mask::full, Mask::causal}) {
        for (const auto& [heads, kv_heads] : {std::pair(1, 1), {3, 3}, {4, 2}, {6, 2}}) {
          for (const std::int32_t tokens : {1, 6, 13}) {
            Attention op = inside(bench, tokens, heads, kv_heads, dtype);
            op.mask = mask;
            bench.check(op);
          }
        }
      }
    });
  }
}

TEST(CudaAttention, OfStripsMatchesFloat64) {
  for (const DType dtype : kDTypes) {
    for (const Mask mask : {Mask::full, Mask::causal}) {
      expect_fine([&] {
        KernelsBench bench;
        const View q{.tensor = bench.tensors.add_random(17, 32, dtype),
                     .row = 1,
                     .rows = 3,
                     .cols = 32,
                     .strips = 3,
                     .row_step = 5};
        bench.check(Attention{.o = bench.matrix(9, 32, dtype),
                              .q = q,
                              .k = bench.matrix(17, 16, dtype),
                              .v = bench.matrix(17, 16, dtype),
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = 8,
                              .mask = mask});
      });
    }
  }
}

TEST(CudaAttention, LargerOnesGrowTheWorkspace) {
  expect_fine([] {
    KernelsBench bench;
    const auto attention = [&](std::int32_t tokens) {
      const auto matrix = [&] { return bench.matrix(tokens, 1, DType::bf16); };
      return Attention{.o = matrix(), .q = matrix(), .k = matrix(), .v = matrix()};
    };
    bench.check(attention(4));
    const Attention large = attention(800);
    bench.tensors.upload(bench.stream);
    EXPECT_THROW(bench.kernels.run(large, bench.tensors.storage()), std::logic_error);
    bench.compute(large);
    bench.tensors.download(bench.stream);
  });
}

}  // namespace
}  // namespace commfuse::fake
