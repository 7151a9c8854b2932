// SPDX-License-Identifier: Apache-2.0
#include "suite/compute.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>

namespace commfuse {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // NOLINT(readability-identifier-naming)

/// Visible (query, key) pairs of rows [0, rows) of a buffer in zigzag order: row 2i sees i + 1 keys
/// and row 2i + 1 sees tokens - i, so every pair of rows sees tokens + 1.
std::int64_t causal_pairs_before(std::int64_t rows, std::int64_t tokens) {
  const std::int64_t pairs = rows / 2;
  return pairs * (tokens + 1) + (rows % 2 == 0 ? 0 : pairs + 1);
}

/// Of an Attention or its gradient.
template <class Attending>
std::int64_t visible_pairs(const Attending& op) {
  const std::int64_t tokens = op.k.total_rows();
  if (op.mask == Mask::full) return op.q.total_rows() * tokens;
  std::int64_t pairs = 0;
  for (std::int32_t s = 0; s < op.q.strips; ++s) {
    const std::int64_t first = op.q.row + std::int64_t{s} * op.q.row_step;
    pairs += causal_pairs_before(first + op.q.rows, tokens) - causal_pairs_before(first, tokens);
  }
  return pairs;
}

/// `products` multiply-adds per head, element of it and visible pair.
template <class Attending>
std::int64_t attention_flops(const Attending& op, std::int64_t products) {
  return 2 * products * op.head_dim * op.heads * visible_pairs(op);
}

/// Rows and columns of a view's packed form, or of its transpose.
struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};
Extent packed(const View& view) { return {view.total_rows(), view.cols}; }
/// Strips are transposed each on its own.
Extent operand(const View& view, bool transpose) {
  if (!transpose) return packed(view);
  return {std::int64_t{view.cols} * view.strips, view.rows};
}

std::string unless_equal(std::string_view what, const Extent& got, const Extent& wanted) {
  if (got == wanted) return {};
  return fmt::format("{} is {} x {}, not {} x {}", what, got.rows, got.cols, wanted.rows,
                     wanted.cols);
}

/// The first reason there is.
std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& reason : reasons) {
    if (!reason.empty()) return reason;
  }
  return {};
}

std::string misfit_of(const Gemm& op) {
  if (op.b.strips != 1) {
    if (op.a.strips != 1)
      return fmt::format("A and B have {} and {} strips", op.a.strips, op.b.strips);
    for (const View& view : {op.d, op.c.value_or(op.d)}) {
      if (view.strips == op.b.strips) continue;
      return fmt::format("{} strips of B do not give {} of D or C", op.b.strips, view.strips);
    }
    return misfit_of(strip_of(op, 0));
  }
  const Extent d = packed(op.d);
  const Extent a = operand(op.a, op.transpose_a);
  return first_of({unless_equal("op(A)", a, {d.rows, a.cols}),
                   unless_equal("op(B)", operand(op.b, op.transpose_b), {a.cols, d.cols}),
                   op.c ? unless_equal("C", packed(*op.c), d) : std::string{}});
}

/// What Q and K have to be.
struct HeadExtents {
  Extent q, k;
};
template <class Attending>
HeadExtents extents_of(const Attending& op) {
  return {{op.q.total_rows(), std::int64_t{op.heads} * op.head_dim},
          {op.k.total_rows(), std::int64_t{op.kv_heads} * op.head_dim}};
}

std::string unless_shared(std::int32_t heads, std::int32_t kv_heads) {
  if (kv_heads > 0 && heads % kv_heads == 0) return {};
  return fmt::format("{} heads do not share {} kv heads evenly", heads, kv_heads);
}

std::string misfit_of(const Attention& op) {
  const auto [q, k] = extents_of(op);
  return first_of({unless_shared(op.heads, op.kv_heads), unless_equal("Q", packed(op.q), q),
                   unless_equal("O", packed(op.o), q), unless_equal("K", packed(op.k), k),
                   unless_equal("V", packed(op.v), k)});
}

std::string misfit_of(const AttentionGradient& op) {
  const auto [q, k] = extents_of(op);
  return first_of({unless_shared(op.heads, op.kv_heads), unless_equal("Q", packed(op.q), q),
                   unless_equal("dQ", packed(op.dq), q), unless_equal("dO", packed(op.d_o), q),
                   unless_equal("K", packed(op.k), k), unless_equal("V", packed(op.v), k),
                   unless_equal("dK", packed(op.dk), k), unless_equal("dV", packed(op.dv), k)});
}

/// What an activation reads, from the shape of what it writes.
Extent activated_from(const View& y, Activation kind) {
  return {y.total_rows(), std::int64_t{y.cols} * (kind == Activation::swiglu ? 2 : 1)};
}

std::string misfit_of(const Elementwise& op) {
  return unless_equal("X", packed(op.x), activated_from(op.y, op.kind));
}

std::string misfit_of(const ActivationGradient& op) {
  const Extent x = activated_from(op.dy, op.kind);
  return first_of({unless_equal("dX", packed(op.dx), x), unless_equal("X", packed(op.x), x)});
}

/// One row, a number for each column of x.
Extent row_of(const View& x) { return {1, x.cols}; }

std::string misfit_of(const Norm& op) {
  return first_of({unless_equal("Y", packed(op.y), packed(op.x)),
                   unless_equal("gamma", packed(op.gamma), row_of(op.x))});
}

std::string misfit_of(const NormGradient& op) {
  return first_of({unless_equal("dX", packed(op.dx), packed(op.x)),
                   unless_equal("dY", packed(op.dy), packed(op.x)),
                   unless_equal("gamma", packed(op.gamma), row_of(op.x))});
}

std::string misfit_of(const GammaGradient& op) {
  return first_of({unless_equal("D", packed(op.d), row_of(op.x)),
                   unless_equal("dY", packed(op.dy), packed(op.x))});
}

std::string misfit_of(const Residual& op) {
  return first_of({unless_equal("X", packed(op.x), packed(op.y)),
                   unless_equal("R", packed(op.r), packed(op.y))});
}

std::string misfit_of(const Adam& op) {
  const Extent w = packed(op.new_w);
  return first_of({unless_equal("M'", packed(op.new_m), w), unless_equal("V'", packed(op.new_v), w),
                   unless_equal("W", packed(op.w), w), unless_equal("M", packed(op.m), w),
                   unless_equal("V", packed(op.v), w), unless_equal("G", packed(op.g), w),
                   op.copy ? unless_equal("the copy", packed(*op.copy), w) : std::string{}});
}

std::string misfit_of(const Accumulate& op) {
  std::string reason = unless_equal("A", packed(op.a), packed(op.d));
  return reason.empty() ? unless_equal("a term", packed(op.terms.strip(0)), packed(op.d)) : reason;
}

std::string misfit_of(const Copy& op) { return unless_equal("S", packed(op.s), packed(op.d)); }

}  // namespace

Gemm strip_of(const Gemm& op, std::int32_t s) {
  Gemm product = op;
  product.d = op.d.strip(s);
  product.b = op.b.strip(s);
  if (op.c) product.c = op.c->strip(s);
  return product;
}

std::int64_t flops(const Compute& op) {
  return std::visit(
      Overloaded{
          [](const Gemm& gemm) {
            const std::int64_t k = gemm.transpose_a ? gemm.a.rows : gemm.a.cols;
            return 2 * gemm.d.elements() * k;
          },
          [](const Attention& attention) { return attention_flops(attention, 2); },
          [](const AttentionGradient& gradient) { return attention_flops(gradient, 5); },
          [](const auto&) { return std::int64_t{0}; },
      },
      op);
}

std::int64_t model_flops(const Compute& op) {
  const auto* gradient = std::get_if<AttentionGradient>(&op);
  return gradient == nullptr ? flops(op) : attention_flops(*gradient, 4);  // without the scores
}

std::int64_t bytes(const Compute& op, std::span<const Tensor> tensors) {
  std::int64_t total = 0;
  const auto add = [&](const std::vector<View>& views) {
    for (const View& view : views) total += view.elements() * bytes_of(tensors[view.tensor].dtype);
  };
  add(reads(op));
  add(writes(op));
  return total;
}

std::string misfit(const Compute& op) {
  return std::visit([](const auto& work) { return misfit_of(work); }, op);
}

std::vector<View> reads(const Compute& op) {
  return std::visit(
      Overloaded{
          [](const Gemm& gemm) {
            std::vector<View> views{gemm.a, gemm.b};
            if (gemm.c) views.push_back(*gemm.c);
            return views;
          },
          [](const Attention& attention) {
            return std::vector<View>{attention.q, attention.k, attention.v};
          },
          [](const AttentionGradient& gradient) {
            std::vector<View> views{gradient.d_o, gradient.q, gradient.k, gradient.v};
            if (gradient.adds) views.insert(views.end(), {gradient.dk, gradient.dv});
            return views;
          },
          [](const Elementwise& elementwise) { return std::vector<View>{elementwise.x}; },
          [](const ActivationGradient& gradient) {
            return std::vector<View>{gradient.dy, gradient.x};
          },
          [](const Norm& norm) {
            return std::vector<View>{norm.x, norm.gamma};
          },
          [](const NormGradient& gradient) {
            return std::vector<View>{gradient.dy, gradient.x, gradient.gamma};
          },
          [](const GammaGradient& gradient) {
            std::vector<View> views{gradient.dy, gradient.x};
            if (gradient.adds) views.push_back(gradient.d);
            return views;
          },
          [](const Residual& residual) {
            return std::vector<View>{residual.x, residual.r};
          },
          [](const Adam& adam) {
            return std::vector<View>{adam.w, adam.m, adam.v, adam.g};
          },
          [](const Accumulate& accumulate) {
            return std::vector<View>{accumulate.a, accumulate.terms};
          },
          [](const Copy& copy) { return std::vector<View>{copy.s}; },
      },
      op);
}

std::vector<View> writes(const Compute& op) {
  return std::visit(Overloaded{
                        [](const Gemm& gemm) { return std::vector{gemm.d}; },
                        [](const Attention& attention) { return std::vector{attention.o}; },
                        [](const AttentionGradient& gradient) {
                          return std::vector{gradient.dq, gradient.dk, gradient.dv};
                        },
                        [](const Elementwise& elementwise) { return std::vector{elementwise.y}; },
                        [](const ActivationGradient& gradient) { return std::vector{gradient.dx}; },
                        [](const Norm& norm) { return std::vector{norm.y}; },
                        [](const NormGradient& gradient) { return std::vector{gradient.dx}; },
                        [](const GammaGradient& gradient) { return std::vector{gradient.d}; },
                        [](const Residual& residual) { return std::vector{residual.y}; },
                        [](const Adam& adam) {
                          std::vector views{adam.new_w, adam.new_m, adam.new_v};
                          if (adam.copy) views.push_back(*adam.copy);
                          return views;
                        },
                        [](const Accumulate& accumulate) { return std::vector{accumulate.d}; },
                        [](const Copy& copy) { return std::vector{copy.d}; },
                    },
                    op);
}

}  // namespace commfuse
