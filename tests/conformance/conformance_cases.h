// SPDX-License-Identifier: Apache-2.0
// The rows and columns of the conformance matrix: implementations with their parameters, and
// workloads with small shapes, each with the rule that says which pairs cannot be cut. The rules
// are written from the numbers, apart from the implementations' own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suite/shape.h"

namespace commfuse {

/// A workload on a shape that grows with the ranks, so that what divides does so on any number of
/// them.
struct ShapeCase {
  std::string_view name;  // "mlp_relu"
  std::string_view workload;
  std::int32_t rows = 0;    // tokens per rank; of data parallelism, per rank and number of ranks
  std::int32_t hidden = 0;  // of data parallelism, per rank
  std::int32_t ffn = 0;     // per rank
  std::int32_t heads = 0;   // per rank
  std::int32_t kv_heads = 0;
  bool shared_kv_heads = false;  // kv_heads are those of all ranks together
  std::int32_t head_dim = 0;
  Activation activation = Activation::relu;
  bool causal = false;
  std::int32_t layers = 1;
  std::int32_t bucket_maps = 0;   // fp32 gradients that a bucket holds; 0: no bucket is given
  bool narrow_gradients = false;  // of the dtype, else fp32
};

std::span<const ShapeCase> shape_cases();
Shape shape_of(const ShapeCase& shape, std::int32_t ranks, DType dtype);

/// An implementation of the table and what its parameters cut into how many parts.
struct ImplementationCase {
  enum class Cut : std::uint8_t { nothing, tokens, features };
  std::string spec;
  Cut cut = Cut::nothing;
  std::int32_t parts = 1;
};

/// By name as in the table of implementations, with every parameter combination that is legal.
struct ImplementationFamily {
  std::string_view name;
  std::vector<ImplementationCase> members;
};
std::span<const ImplementationFamily> implementation_families();

/// Whether the implementation can cut the workload on this shape. Only where weights are cut over
/// ranks, and by columns, the number of ranks matters.
bool divides(const ImplementationCase& implementation, const ShapeCase& shape, std::int32_t ranks);

}  // namespace commfuse
