// SPDX-License-Identifier: Apache-2.0
#include "suite/compute.h"

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

std::int64_t visible_pairs(const Attention& op) {
  const std::int64_t tokens = op.k.total_rows();
  if (op.mask == Mask::full) return op.q.total_rows() * tokens;
  std::int64_t pairs = 0;
  for (std::int32_t s = 0; s < op.q.strips; ++s) {
    const std::int64_t first = op.q.row + std::int64_t{s} * op.q.row_step;
    pairs += causal_pairs_before(first + op.q.rows, tokens) - causal_pairs_before(first, tokens);
  }
  return pairs;
}

}  // namespace

std::int64_t flops(const Compute& op) {
  return std::visit(Overloaded{
                        [](const Gemm& gemm) {
                          const std::int64_t k =
                              gemm.transpose_a ? gemm.a.total_rows() : gemm.a.cols;
                          return 2 * gemm.d.elements() * k;
                        },
                        [](const Attention& attention) {
                          return std::int64_t{4} * attention.head_dim * attention.heads *
                                 visible_pairs(attention);
                        },
                        [](const auto&) { return std::int64_t{0}; },
                    },
                    op);
}

std::int64_t bytes(const Compute& op, std::int64_t element_bytes) {
  std::int64_t elements = writes(op).elements();
  for (const View& view : reads(op)) elements += view.elements();
  return elements * element_bytes;
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
          [](const Elementwise& elementwise) { return std::vector<View>{elementwise.x}; },
          [](const Accumulate& accumulate) {
            return std::vector<View>{accumulate.a, accumulate.terms};
          },
          [](const Copy& copy) { return std::vector<View>{copy.s}; },
      },
      op);
}

View writes(const Compute& op) {
  return std::visit(Overloaded{
                        [](const Gemm& gemm) { return gemm.d; },
                        [](const Attention& attention) { return attention.o; },
                        [](const Elementwise& elementwise) { return elementwise.y; },
                        [](const Accumulate& accumulate) { return accumulate.d; },
                        [](const Copy& copy) { return copy.d; },
                    },
                    op);
}

}  // namespace commfuse
