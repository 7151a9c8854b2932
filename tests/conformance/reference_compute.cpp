// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/reference_compute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "suite/adam_factors.h"
#include "tests/conformance/activation_formulas.h"

namespace commfuse {
namespace {

/// A packed view: `rows` rows of `cols` values.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;

  double& at(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
  [[nodiscard]] const double& at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
};

Matrix zeros(std::int64_t rows, std::int64_t cols) {
  return {rows, cols, std::vector<double>(static_cast<std::size_t>(rows * cols), 0.0)};
}

Matrix transposed(const Matrix& matrix) {
  Matrix result = zeros(matrix.cols, matrix.rows);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.cols; ++c) result.at(c, r) = matrix.at(r, c);
  }
  return result;
}

void require(bool fits, std::string_view what) {
  if (!fits) throw std::invalid_argument(fmt::format("shapes do not fit: {}", what));
}

class Kernels {
 public:
  Kernels(std::int32_t rank, ReferenceMemory& memory) : rank_(rank), memory_(memory) {}

  void operator()(const Gemm& op) const {
    if (op.b.strips > 1) {
      require(op.a.strips == 1 && op.d.strips == op.b.strips, "strips of B give strips of D");
      require(!op.c || op.c->strips == op.b.strips, "C as D");
      for (std::int32_t s = 0; s < op.b.strips; ++s) (*this)(strip_of(op, s));
      return;
    }
    const Matrix a = op.transpose_a ? load_transposed(op.a) : load(op.a);
    const Matrix b = op.transpose_b ? transposed(load(op.b)) : load(op.b);
    require(a.rows == op.d.total_rows() && b.cols == op.d.cols && a.cols == b.rows,
            "D = op(A) op(B)");
    Matrix d = op.c ? load(*op.c) : zeros(a.rows, b.cols);
    require(d.rows == a.rows && d.cols == b.cols, "C as D");
    for (std::int64_t i = 0; i < a.rows; ++i) {
      for (std::int64_t k = 0; k < a.cols; ++k) {
        const double factor = a.at(i, k);
        for (std::int64_t j = 0; j < b.cols; ++j) d.at(i, j) += factor * b.at(k, j);
      }
    }
    store(op.d, d);
  }

  void operator()(const Attention& op) const {
    const std::int64_t width = std::int64_t{op.heads} * op.head_dim;
    require(op.q.cols == width && op.o.cols == width && op.o.total_rows() == op.q.total_rows(),
            "O as Q, heads x head_dim");
    require(op.k.cols == op.kv_heads * op.head_dim && op.v.cols == op.k.cols, "K and V");
    require(op.k.total_rows() == op.v.total_rows() && op.heads % op.kv_heads == 0, "kv heads");
    const Matrix q = load(op.q);
    const Matrix k = load(op.k);
    const Matrix v = load(op.v);
    Matrix o = zeros(q.rows, q.cols);
    for (std::int64_t i = 0; i < q.rows; ++i) {
      const std::int32_t row = ReferenceMemory::place(op.q, i * op.q.cols).row;
      for (std::int32_t head = 0; head < op.heads; ++head) attend(op, row, head, i, q, k, v, o);
    }
    store(op.o, o);
  }

  void operator()(const AttentionGradient& op) const {
    const std::int64_t width = std::int64_t{op.heads} * op.head_dim;
    require(op.q.cols == width, "heads x head_dim");
    require(op.dq.cols == width && op.dq.total_rows() == op.q.total_rows(), "dQ as Q");
    require(op.d_o.cols == width && op.d_o.total_rows() == op.q.total_rows(), "dO as Q");
    require(op.k.cols == op.kv_heads * op.head_dim && op.heads % op.kv_heads == 0, "kv heads");
    for (const View& view : {op.v, op.dk, op.dv}) {
      require(view.cols == op.k.cols && view.total_rows() == op.k.total_rows(), "V, dK, dV as K");
    }
    const GradientInputs in{load(op.d_o), load(op.q), load(op.k), load(op.v)};
    Matrix dq = zeros(in.q.rows, in.q.cols);
    Matrix dk = op.adds ? load(op.dk) : zeros(in.k.rows, in.k.cols);
    Matrix dv = op.adds ? load(op.dv) : zeros(in.k.rows, in.k.cols);
    for (std::int64_t i = 0; i < in.q.rows; ++i) {
      const std::int32_t row = ReferenceMemory::place(op.q, i * op.q.cols).row;
      for (std::int32_t head = 0; head < op.heads; ++head) {
        attend_back(op, row, head, i, in, dq, dk, dv);
      }
    }
    store(op.dq, dq);
    store(op.dk, dk);
    store(op.dv, dv);
  }

  void operator()(const Elementwise& op) const {
    const bool gated = op.kind == Activation::swiglu;
    require(op.x.total_rows() == op.y.total_rows() && op.x.cols == op.y.cols * (gated ? 2 : 1),
            "X as Y, twice its columns where gated");
    const Matrix x = load(op.x);
    Matrix y = zeros(op.y.total_rows(), op.y.cols);
    for (std::int64_t i = 0; i < y.rows; ++i) {
      for (std::int64_t j = 0; j < y.cols; ++j) {
        y.at(i, j) = activate(op.kind, x.at(i, j), gated ? x.at(i, y.cols + j) : 1.0);
      }
    }
    store(op.y, y);
  }

  void operator()(const ActivationGradient& op) const {
    const bool gated = op.kind == Activation::swiglu;
    const std::int64_t cols = op.dy.cols;
    require(op.dx.total_rows() == op.dy.total_rows() && op.dx.cols == cols * (gated ? 2 : 1),
            "dX as dY, twice its columns where gated");
    require(op.x.total_rows() == op.dx.total_rows() && op.x.cols == op.dx.cols, "X as dX");
    const Matrix x = load(op.x);
    const Matrix dy = load(op.dy);
    Matrix dx = zeros(x.rows, x.cols);
    for (std::int64_t i = 0; i < dy.rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        const double up = gated ? x.at(i, cols + j) : 1.0;
        dx.at(i, j) = dy.at(i, j) * slope(op.kind, x.at(i, j)) * up;
        if (gated) dx.at(i, cols + j) = dy.at(i, j) * activate(op.kind, x.at(i, j), 1.0);
      }
    }
    store(op.dx, dx);
  }

  void operator()(const Norm& op) const {
    require(op.y.total_rows() == op.x.total_rows() && op.y.cols == op.x.cols, "Y as X");
    require(op.gamma.total_rows() == 1 && op.gamma.cols == op.x.cols, "gamma as a row of X");
    Matrix y = normed(op.x);
    const Matrix gamma = load(op.gamma);
    for (std::int64_t i = 0; i < y.rows; ++i) {
      for (std::int64_t j = 0; j < y.cols; ++j) y.at(i, j) *= gamma.at(0, j);
    }
    store(op.y, y);
  }

  void operator()(const NormGradient& op) const {
    require(op.dx.total_rows() == op.x.total_rows() && op.dx.cols == op.x.cols, "dX as X");
    require(op.dy.total_rows() == op.x.total_rows() && op.dy.cols == op.x.cols, "dY as X");
    require(op.gamma.total_rows() == 1 && op.gamma.cols == op.x.cols, "gamma as a row of X");
    const Matrix x = load(op.x);
    const Matrix n = normed(op.x);
    const Matrix gamma = load(op.gamma);
    Matrix dx = load(op.dy);
    for (std::int64_t i = 0; i < x.rows; ++i) {
      double mean = 0;
      for (std::int64_t j = 0; j < x.cols; ++j) {
        dx.at(i, j) *= gamma.at(0, j);
        mean += dx.at(i, j) * n.at(i, j) / static_cast<double>(x.cols);
      }
      const double root = rms(x, i);
      for (std::int64_t j = 0; j < x.cols; ++j) {
        dx.at(i, j) = (dx.at(i, j) - n.at(i, j) * mean) / root;
      }
    }
    store(op.dx, dx);
  }

  void operator()(const GammaGradient& op) const {
    require(op.dy.total_rows() == op.x.total_rows() && op.dy.cols == op.x.cols, "dY as X");
    require(op.d.total_rows() == 1 && op.d.cols == op.x.cols, "D as a row of X");
    const Matrix n = normed(op.x);
    const Matrix dy = load(op.dy);
    Matrix d = op.adds ? load(op.d) : zeros(1, op.d.cols);
    for (std::int64_t i = 0; i < n.rows; ++i) {
      for (std::int64_t j = 0; j < n.cols; ++j) d.at(0, j) += dy.at(i, j) * n.at(i, j);
    }
    store(op.d, d);
  }

  void operator()(const Residual& op) const {
    require(op.x.total_rows() == op.y.total_rows() && op.x.cols == op.y.cols, "X as Y");
    require(op.r.total_rows() == op.y.total_rows() && op.r.cols == op.y.cols, "R as Y");
    Matrix y = load(op.x);
    const Matrix r = load(op.r);
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += r.values[i];
    store(op.y, y);
  }

  void operator()(const Adam& op) const {
    for (const View& view :
         {op.new_m, op.new_v, op.w, op.m, op.v, op.g, op.copy.value_or(op.new_w)}) {
      require(view.total_rows() == op.new_w.total_rows() && view.cols == op.new_w.cols, "as W'");
    }
    Matrix w = load(op.w);
    Matrix m = load(op.m);
    Matrix v = load(op.v);
    const Matrix g = load(op.g);
    for (std::size_t i = 0; i < w.values.size(); ++i) {
      const double gradient = g.values[i];
      m.values[i] = kAdamBeta1 * m.values[i] + (1 - kAdamBeta1) * gradient;
      v.values[i] = kAdamBeta2 * std::abs(v.values[i]) + (1 - kAdamBeta2) * gradient * gradient;
      const double divisor = std::sqrt(v.values[i] * kAdamUnbiased) + kAdamEpsilon;
      w.values[i] = kAdamKept * w.values[i] - kAdamStepSize * m.values[i] / divisor;
    }
    store(op.new_w, w);
    store(op.new_m, m);
    store(op.new_v, v);
    if (op.copy) store(*op.copy, w);
  }

  void operator()(const Accumulate& op) const {
    require(op.a.elements() == op.d.elements() && op.a.cols == op.d.cols, "A as D");
    require(op.terms.rows * op.terms.cols == op.d.elements() && op.terms.cols == op.d.cols,
            "strips of the terms as D");
    Matrix d = load(op.a);
    for (std::int32_t s = 0; s < op.terms.strips; ++s) {
      const Matrix term = load(op.terms.strip(s));
      for (std::size_t i = 0; i < d.values.size(); ++i) d.values[i] += term.values[i];
    }
    store(op.d, d);
  }

  void operator()(const Copy& op) const {
    require(op.s.elements() == op.d.elements() && op.s.cols == op.d.cols, "S as D");
    store(op.d, load(op.s));
  }

 private:
  [[nodiscard]] Matrix load(const View& view) const {
    return {view.total_rows(), view.cols, memory_.read(rank_, view)};
  }
  /// The transposes of the strips, one below the other.
  [[nodiscard]] Matrix load_transposed(const View& view) const {
    Matrix all = zeros(0, view.rows);
    for (std::int32_t s = 0; s < view.strips; ++s) {
      const Matrix strip = transposed(load(view.strip(s)));
      all.rows += strip.rows;
      all.values.insert(all.values.end(), strip.values.begin(), strip.values.end());
    }
    return all;
  }
  void store(const View& view, const Matrix& matrix) const {
    memory_.write(rank_, view, matrix.values);
  }

  /// Of one row, as a norm divides by it.
  static double rms(const Matrix& x, std::int64_t row) {
    double squares = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) squares += x.at(row, j) * x.at(row, j);
    return std::sqrt(squares / static_cast<double>(x.cols) + kNormEpsilon);
  }
  /// Every row divided by its rms.
  [[nodiscard]] Matrix normed(const View& view) const {
    Matrix x = load(view);
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const double root = rms(x, i);
      for (std::int64_t j = 0; j < x.cols; ++j) x.at(i, j) /= root;
    }
    return x;
  }

  /// Half of the smallest number in fp32: less is 0 there.
  static constexpr double kVanishing = 0x1p-150;

  /// A weight of the softmax, of one key that the query sees.
  struct Weight {
    std::int32_t key = 0;
    double value = 0;
  };

  /// The softmax of one query row (number i of q) and head over the visible keys.
  template <class Attending>
  static std::vector<Weight> softmax(const Attending& op, std::int32_t query_row, std::int32_t head,
                                     std::int64_t i, const Matrix& q, const Matrix& k) {
    const auto tokens = static_cast<std::int32_t>(k.rows);
    const double* query = &q.at(i, std::int64_t{head} * op.head_dim);
    std::vector<Weight> weights;
    double peak = -std::numeric_limits<double>::infinity();
    for (std::int32_t t = 0; t < tokens; ++t) {
      const bool visible =
          op.mask == Mask::full || zigzag_position(t, tokens) <= zigzag_position(query_row, tokens);
      if (!visible) continue;
      const double* key = &k.at(t, kv_begin(op, head));
      double score = 0;
      for (std::int32_t c = 0; c < op.head_dim; ++c) score += query[c] * key[c];
      score /= std::sqrt(static_cast<double>(op.head_dim));
      weights.push_back({t, score});
      peak = score > peak || std::isnan(score) ? score : peak;
    }
    double total = 0;
    for (Weight& weight : weights) {
      weight.value = std::exp(weight.value - peak);
      if (weight.value < kVanishing) weight.value = 0;
      total += weight.value;
    }
    for (Weight& weight : weights) weight.value /= total;
    return weights;
  }

  template <class Attending>
  static std::int64_t kv_begin(const Attending& op, std::int32_t head) {
    return std::int64_t{head / (op.heads / op.kv_heads)} * op.head_dim;
  }

  static void attend(const Attention& op, std::int32_t query_row, std::int32_t head, std::int64_t i,
                     const Matrix& q, const Matrix& k, const Matrix& v, Matrix& o) {
    double* out = &o.at(i, std::int64_t{head} * op.head_dim);
    for (const Weight& weight : softmax(op, query_row, head, i, q, k)) {
      const double* value = &v.at(weight.key, kv_begin(op, head));
      for (std::int32_t c = 0; c < op.head_dim; ++c) out[c] += weight.value * value[c];
    }
  }

  struct GradientInputs {
    Matrix d_o, q, k, v;
  };

  /// What one query row and head gives to every gradient.
  static void attend_back(const AttentionGradient& op, std::int32_t query_row, std::int32_t head,
                          std::int64_t i, const GradientInputs& in, Matrix& dq, Matrix& dk,
                          Matrix& dv) {
    const std::int64_t from = std::int64_t{head} * op.head_dim;
    const std::int64_t kv_from = kv_begin(op, head);
    const double* above = &in.d_o.at(i, from);
    const auto slope = [&](const Weight& weight) {  // an element of dP
      double sum = 0;
      for (std::int32_t c = 0; c < op.head_dim; ++c) {
        sum += above[c] * in.v.at(weight.key, kv_from + c);
      }
      return sum;
    };
    const std::vector<Weight> weights = softmax(op, query_row, head, i, in.q, in.k);
    double mean = 0;
    for (const Weight& weight : weights) mean += weight.value * slope(weight);
    const double scale = 1 / std::sqrt(static_cast<double>(op.head_dim));
    for (const Weight& weight : weights) {
      const double ds = scale * weight.value * (slope(weight) - mean);
      for (std::int32_t c = 0; c < op.head_dim; ++c) {
        dv.at(weight.key, kv_from + c) += weight.value * above[c];
        dk.at(weight.key, kv_from + c) += ds * in.q.at(i, from + c);
        dq.at(i, from + c) += ds * in.k.at(weight.key, kv_from + c);
      }
    }
  }

  std::int32_t rank_;
  ReferenceMemory& memory_;
};

}  // namespace

void run_compute(const Compute& op, std::int32_t rank, ReferenceMemory& memory) {
  std::visit(Kernels(rank, memory), op);
}

}  // namespace commfuse
