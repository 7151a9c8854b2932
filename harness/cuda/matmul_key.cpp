// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/matmul_key.h"

namespace commfuse {
namespace {

MatmulKey::Operand operand(const BatchedMatrix& matrix, std::int64_t batch, DType dtype) {
  return {.pitch = matrix.pitch,
          .batch_step = batch == 1 ? 0 : matrix.batch_step,
          .alignment = alignment_of(matrix, batch, dtype)};
}

MatmulKey::Addend addend_of(const Matmul& matmul) {
  if (matmul.c.data == nullptr) return MatmulKey::Addend::absent;
  const bool in_place = matmul.c.data == matmul.d.data && matmul.c.pitch == matmul.d.pitch &&
                        matmul.c.batch_step == matmul.d.batch_step;
  return in_place ? MatmulKey::Addend::in_place : MatmulKey::Addend::other;
}

}  // namespace

std::uint32_t alignment_of(const BatchedMatrix& matrix, std::int64_t batch, DType dtype) {
  constexpr std::uint64_t kMost = 256;
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(matrix.data) | kMost;
  if (batch > 1) bits |= static_cast<std::uint64_t>(matrix.batch_step * bytes_of(dtype));
  return static_cast<std::uint32_t>(bits & (~bits + 1));  // the lowest bit
}

MatmulKey key_of(const Matmul& matmul) {
  const BatchedMatrix& c = matmul.c.data == nullptr ? matmul.d : matmul.c;
  return {.m = matmul.m,
          .n = matmul.n,
          .k = matmul.k,
          .batch = matmul.batch,
          .a = operand(matmul.a, matmul.batch, matmul.factors),
          .b = operand(matmul.b, matmul.batch, matmul.factors),
          .c = operand(c, matmul.batch, matmul.result),
          .d = operand(matmul.d, matmul.batch, matmul.result),
          .addend = addend_of(matmul),
          .transpose_a = matmul.transpose_a,
          .transpose_b = matmul.transpose_b,
          .factors = matmul.factors,
          .result = matmul.result};
}

}  // namespace commfuse
