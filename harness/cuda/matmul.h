// SPDX-License-Identifier: Apache-2.0
// Products of row-major matrices on device storage: what is asked of cuBLASLt, as values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "suite/tensor.h"

namespace commfuse {

/// Row-major, rows `pitch` elements apart; matrix i of a batch lies i * `batch_step` elements
/// further on (0: it is the same one).
struct BatchedMatrix {
  std::byte* data = nullptr;
  std::int64_t pitch = 0;
  std::int64_t batch_step = 0;
};

/// D = alpha op(A) op(B) + C, `batch` times; D is m x n, op(A) m x k.
struct Matmul {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  BatchedMatrix a, b;
  BatchedMatrix c;  // without data: nothing is added; may be D
  BatchedMatrix d;
  bool transpose_a = false;
  bool transpose_b = false;
  float alpha = 1.0F;
  DType factors = DType::f32;  // of A and B
  DType result = DType::f32;   // of C and D
};

}  // namespace commfuse
