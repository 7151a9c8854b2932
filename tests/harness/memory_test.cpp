// SPDX-License-Identifier: Apache-2.0
#include "harness/memory.h"

#include <gtest/gtest.h>

#include "harness/limits.h"
#include "harness/world/free_memory.h"
#include "suite/workload.h"

namespace commfuse {
namespace {

Workload gemm_rs(DType dtype) {
  Shape shape = parse_shape("hidden=64,ffn=128,heads=4");
  shape.tokens = 32;
  shape.dtype = dtype;
  return find_workloads("tpsp/gemm_rs").front()->build(shape, 2);
}

TEST(Memory, CountsTensors) {
  const Workload workload = gemm_rs(DType::f32);
  std::int64_t tensors = 0;
  for (const Tensor& tensor : workload.tensors) tensors += tensor.bytes();
  EXPECT_EQ(estimate_rank_bytes(workload, "host"), tensors);
}

TEST(Memory, OfADeviceCountsWorkspacesAndNoExpansions) {
  const std::int64_t narrow = estimate_rank_bytes(gemm_rs(DType::bf16), "cuda");
  const std::int64_t wide = estimate_rank_bytes(gemm_rs(DType::f32), "cuda");
  EXPECT_EQ(wide - narrow, tensor_bytes(gemm_rs(DType::bf16)));
  EXPECT_GT(narrow, tensor_bytes(gemm_rs(DType::bf16)));
}

TEST(Memory, TooLittleSaysOfWhat) {
  EXPECT_EQ(too_little_memory(1 << 30, 1 << 20, "cuda"),
            "needs about 1.0 GiB of device memory for all ranks of a node, 1.0 MiB are available");
  EXPECT_EQ(too_little_memory(1 << 30, 0, "cuda"), "");
}

TEST(Memory, NarrowDTypesCountExpansions) {
  // Expanded weights alone are twice their 16-bit bytes.
  for (const DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_GT(estimate_rank_bytes(gemm_rs(dtype), "host"),
              estimate_rank_bytes(gemm_rs(DType::f32), "host") / 2);
  }
}

TEST(Memory, TheMachineHasSome) { EXPECT_GT(available_bytes(), 1 << 20); }

TEST(Memory, Words) {
  EXPECT_EQ(format_bytes(std::int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes(1 << 20), "1.0 MiB");
}

}  // namespace
}  // namespace commfuse
