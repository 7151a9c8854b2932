// SPDX-License-Identifier: Apache-2.0
// FLOPs of a whole transformer layer, as those count them who publish an MFU. A multiply-add is
// two; what is no gemm or attention (norms, activations, residuals, softmax, rotary embeddings) is
// 0. Of one operation see flops() and model_flops() in suite/compute.h.
#pragma once

#include <cstdint>

#include "suite/shape.h"

namespace commfuse {

enum class Pass : std::uint8_t { forward, backward };

/// One amount of model FLOPs under three conventions. They agree on gemms; they differ in the
/// (query, key) pairs of attention, for T tokens:
///   exact     T (T + 1) / 2 under a causal mask, else T^2: the pairs that the mask shows.
///   palm      T^2 whatever the mask. PaLM (arXiv 2204.02311), appendix B: 6 N + 12 L H Q T a
///             token, forward and backward, with N weights, L layers, H heads of Q dimensions.
///             Narayanan et al. (arXiv 2104.04473, appendix) count pairs alike, but their
///             96 B s l h^2 (1 + s / 6h + V / 16lh) has a second forward pass, recomputed.
///   megatron  T^2 / 2 whatever the mask. Megatron-LM, num_floating_point_operations in
///             megatron/training/training.py at commit 001b00c; some earlier versions have T^2.
struct CountedFlops {
  std::int64_t exact = 0;
  std::int64_t palm = 0;
  std::int64_t megatron = 0;

  friend CountedFlops operator+(const CountedFlops& a, const CountedFlops& b) {
    return {a.exact + b.exact, a.palm + b.palm, a.megatron + b.megatron};
  }
  friend CountedFlops operator*(std::int64_t factor, const CountedFlops& a) {
    return {factor * a.exact, factor * a.palm, factor * a.megatron};
  }
  friend bool operator==(const CountedFlops&, const CountedFlops&) = default;
};

/// The parts of one layer, of all ranks together.
struct LayerFlops {
  CountedFlops projections;  // of queries, keys, values, and of what attention puts out
  CountedFlops attention;
  CountedFlops mlp;

  [[nodiscard]] CountedFlops total() const { return projections + attention + mlp; }
};

/// N of one layer, what its gemms multiply by: hidden x head_dim x (2 heads + 2 kv_heads) of
/// projections, hidden x ffn x 3 of a gated MLP, x 2 of another. Gammas of norms are not in it.
std::int64_t layer_weights(const Shape& shape);

/// One layer of the shape, all tokens as one sequence. Forward: 2 a token and weight, 4 head_dim a
/// head and pair. Backward: twice that, a gemm for each operand's gradient; scores that are
/// computed again do not count. Sizes as workloads accept them: each product of a gemm or of
/// attention below 2^59.
LayerFlops layer_flops(const Shape& shape, Pass pass);

/// What a layer executes that recomputes the scores of its attention in its backward pass, as
/// flash attention does, and nothing else: there attention is 2.5 times its forward pass (gemms for
/// scores, dV, dP, dQ and dK, to two of the forward pass), with the pairs of `exact`.
std::int64_t executed_layer_flops(const Shape& shape, Pass pass);

/// One token through all shape.layers layers. No embedding and no output projection to a
/// vocabulary, which shapes do not have; published formulas add 6 hidden x vocabulary for the
/// latter, forward and backward.
CountedFlops layers_flops_per_token(const Shape& shape, Pass pass);

}  // namespace commfuse
