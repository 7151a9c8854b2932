// SPDX-License-Identifier: Apache-2.0
// What an algorithm of cuBLASLt depends on, apart from the settings. Plain C++.
#pragma once

#include <compare>
#include <cstdint>

#include "harness/cuda/matmul.h"

namespace commfuse {

/// Alignment, in bytes and at most 256, of every matrix of a batch.
std::uint32_t alignment_of(const BatchedMatrix& matrix, std::int64_t batch, DType dtype);

struct MatmulKey {
  struct Operand {
    std::int64_t pitch = 0;
    std::int64_t batch_step = 0;
    std::uint32_t alignment = 0;
    friend auto operator<=>(const Operand&, const Operand&) = default;
  };
  enum class Addend : std::uint8_t { absent, in_place, other };

  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  Operand a, b, c, d;  // c is d's where nothing is added
  Addend addend = Addend::absent;
  bool transpose_a = false;
  bool transpose_b = false;
  DType factors = DType::f32;
  DType result = DType::f32;
  friend auto operator<=>(const MatmulKey&, const MatmulKey&) = default;
};
MatmulKey key_of(const Matmul& matmul);

}  // namespace commfuse
