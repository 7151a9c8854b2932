// SPDX-License-Identifier: Apache-2.0
// Compute operations as values: what is calculated from which views. flops() counts one
// multiply-add as two; bytes() is what the operation must at least read and write once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "suite/tensor.h"

namespace commfuse {

/// D = op(A) op(B) + C, M x N x K from D and A. C is absent, D itself, or another view of D's
/// shape. Views of several strips are a strided batch. Over M: strips of A (transposed each on its
/// own) give the rows of op(A), B has one strip. Over N: strip s of B gives strip s of D and C from
/// the one strip of A.
struct Gemm {
  View d, a, b;
  std::optional<View> c;
  bool transpose_a = false;
  bool transpose_b = true;  // weights are [out, in], so a linear layer multiplies by the transpose
};

enum class Mask : std::uint8_t {
  full,    // every query sees every key
  causal,  // buffers hold rows in slice order (zigzag pairs): a query sees keys of no later
           // position
};

/// O = softmax(mask(Q K^T / sqrt(head_dim))) V per head. q and o may be tiles of the query rows
/// (several strips allowed); k and v are whole. Head h reads kv head h / (heads / kv_heads)
/// (grouped-query attention).
struct Attention {
  View o, q, k, v;
  std::int32_t heads = 1;
  std::int32_t kv_heads = 1;
  std::int32_t head_dim = 1;
  Mask mask = Mask::full;
};

/// What reaches q, k and v of an Attention through its output, per head, with scale =
/// 1 / sqrt(head_dim) and the probabilities P = softmax(mask(scale Q K^T)) computed again:
///   dP = dO V^T, dS = P o (dP - the row sums of P o dP), dQ = scale dS K,
///   dK = scale dS^T Q, dV = P^T dO
/// (Dao et al., FlashAttention, arXiv 2205.14135, appendix B; arXiv 2307.08691). dq, d_o and q may
/// be tiles of the query rows, the same ones; k, v, dk and dv are whole, so each tile gives a share
/// of dk and dv. Query heads that read one kv head are summed. Adds to what dk and dv hold where
/// `adds`. All sums are in fp32 and rounded once; dk and dv may be wider than the rest. Nothing
/// written overlaps another view of the op.
struct AttentionGradient {
  View dq, dk, dv, d_o, q, k, v;
  std::int32_t heads = 1;
  std::int32_t kv_heads = 1;
  std::int32_t head_dim = 1;
  Mask mask = Mask::full;
  bool adds = false;
};

/// Under a causal mask, the sequence position of a row of a buffer of `tokens` rows: rows are the
/// pairs (q, tokens-1-q), so equal runs of row pairs cost the same whatever slice they lie in.
constexpr std::int32_t zigzag_position(std::int32_t row, std::int32_t tokens) {
  return row % 2 == 0 ? row / 2 : tokens - 1 - row / 2;
}

enum class Activation : std::uint8_t {
  relu,    // y = max(x, 0): exact, used where results must agree bit for bit
  gelu,    // y = x * Phi(x), the error-function form
  swiglu,  // y = silu(gate) * up; x holds the gate in its left half of columns and up in its right
           // half
};

/// y = f(x), row by row; x has y's shape, or twice its columns for swiglu.
struct Elementwise {
  View y, x;
  Activation kind = Activation::relu;
};

/// dX = f'(X) dY, element by element. X and dX hold what Elementwise reads as x: for swiglu the
/// gate in the left half of the columns and up in the right half, so dY has half of their columns.
/// The slope of relu at 0 is 0. dX may be X, or dY where the shapes are equal.
struct ActivationGradient {
  View dx, dy, x;
  Activation kind = Activation::relu;
};

/// Added to the mean of squares under the root of every norm; Llama's.
inline constexpr double kNormEpsilon = 1e-5;

/// RMSNorm of every row: y = x / rms(x) * gamma with rms(x) = sqrt(mean(x^2) + kNormEpsilon). gamma
/// is one row of x's columns. y may be x.
struct Norm {
  View y, x, gamma;
};

/// dX = (g - n * mean(g n)) / rms(x) per row, with g = dY gamma and n = x / rms(x): what reaches
/// the input of a Norm. dX may be X or dY.
struct NormGradient {
  View dx, dy, x, gamma;
};

/// D = the sum over the rows of dY x / rms(x), one row: what reaches the gamma of a Norm. Adds to
/// what D holds where `adds`, and rounds once.
struct GammaGradient {
  View d, dy, x;
  bool adds = false;
};

/// Y = X + R, all of one packed shape, summed in fp32 and rounded once: a residual connection. Y
/// may be X or R. Work of the model, not of a schedule as Accumulate is.
struct Residual {
  View y, x, r;
};

/// Of a step of Adam, as large language models are trained: alpha, the betas, what keeps the
/// divisor from zero, the decoupled decay of weights, and which step it is (t, of the bias
/// corrections).
inline constexpr double kAdamRate = 1e-3;
inline constexpr double kAdamBeta1 = 0.9;
inline constexpr double kAdamBeta2 = 0.95;
inline constexpr double kAdamEpsilon = 1e-8;
inline constexpr double kAdamDecay = 0.1;
inline constexpr std::int32_t kAdamStep = 10;

/// A step of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1) with decoupled decay (Loshchilov
/// and Hutter, arXiv 1711.05101), element by element; all views have one packed shape:
///   M' = beta1 M + (1 - beta1) G
///   V' = beta2 |V| + (1 - beta2) G^2
///   W' = (1 - alpha decay) W - alpha M^ / (sqrt(V^) + epsilon)
/// with M^ = M' / (1 - beta1^t) and V^ = V' / (1 - beta2^t). W, M, V and what replaces them are
/// fp32: the master weights and moments of training in mixed precision. `copy` is W' once more,
/// rounded to the dtype in which weights are gathered; absent where that is fp32 too. So an element
/// moves 24 bytes, and those of G and the copy. What is written may be what it replaces; tensors of
/// its own let a step be repeated with the same numbers. (V is a mean of squares, so |V| is V; a
/// random V has both signs.)
struct Adam {
  View new_w, new_m, new_v;
  View w, m, v, g;
  std::optional<View> copy;
};

/// D = A + the sum over the strips of `terms`, each strip of D's shape, summed in fp32 and rounded
/// once. D may be A.
struct Accumulate {
  View d, a, terms;
};

/// D = S, rounded where D's dtype is narrower; both have the same packed shape.
struct Copy {
  View d, s;
};

using Compute = std::variant<Gemm, Attention, AttentionGradient, Elementwise, ActivationGradient,
                             Norm, NormGradient, GammaGradient, Residual, Adam, Accumulate, Copy>;

/// Of a gemm whose B has several strips: what strip `s` of B is multiplied for.
Gemm strip_of(const Gemm& op, std::int32_t s);

/// Attention counts 4 * head_dim per head and visible (query, key) pair of the tile, its gradient
/// 10 * head_dim: five products. All but gemms and these are 0.
std::int64_t flops(const Compute& op);
/// What the mathematics of an operation needs: flops() without what is computed a second time to
/// save memory: 8 * head_dim for an AttentionGradient. The numerator of mfu, as flops() is that of
/// hfu.
std::int64_t model_flops(const Compute& op);
/// Of everything that it reads and writes, each once.
std::int64_t bytes(const Compute& op, std::span<const Tensor> tensors);

/// Why the shapes of an operation's views do not go together: "op(A) is 4 x 8, not
/// 3 x 8"; empty if they do.
std::string misfit(const Compute& op);

/// The views an operation reads and writes, in a fixed order; at least one is written.
std::vector<View> reads(const Compute& op);
std::vector<View> writes(const Compute& op);

}  // namespace commfuse
