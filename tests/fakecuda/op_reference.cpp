// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/op_reference.h"

#include <cmath>

#include "suite/adam_factors.h"
#include "suite/rounding.h"
#include "tests/suite/attention_gradient_reference.h"

namespace commfuse::fake {
namespace {

constexpr double kFloatUnit = 0x1p-24;  // half a unit in the last place, relative

DType dtype_of(const View& view, const DeviceTensors& tensors) {
  return tensors.tensor(view.tensor).dtype;
}

/// A sum of terms whose magnitudes add up to `magnitude`, in fp32, then rounded.
Expected summed(double value, double magnitude, double terms, DType dtype) {
  const double accumulated = (terms + 2) * kFloatUnit * magnitude;
  return {value, accumulated + unit_roundoff(dtype) * (std::abs(value) + accumulated) +
                     underflow_error(dtype)};
}

Expected element(const Gemm& op, const DeviceTensors& t, std::int64_t row, std::int64_t col) {
  if (op.b.strips > 1) {
    const auto strip = static_cast<std::int32_t>(row / op.d.rows);
    return element(strip_of(op, strip), t, row % op.d.rows, col);
  }
  const auto a = [&](std::int64_t i) {
    if (!op.transpose_a) return t.at(op.a, row, i);
    return t.at(op.a.strip(static_cast<std::int32_t>(row / op.a.cols)), i, row % op.a.cols);
  };
  const std::int64_t k = op.transpose_a ? op.a.rows : op.a.cols;
  double sum = op.c ? t.at(*op.c, row, col) : 0;
  double magnitude = std::abs(sum);
  for (std::int64_t i = 0; i < k; ++i) {
    const double product = a(i) * (op.transpose_b ? t.at(op.b, col, i) : t.at(op.b, i, col));
    sum += product;
    magnitude += std::abs(product);
  }
  return summed(sum, magnitude, static_cast<double>(k), dtype_of(op.d, t));
}

bool sees(const Attention& op, std::int64_t packed_row, std::int64_t key) {
  if (op.mask == Mask::full) return true;
  const auto row = static_cast<std::int32_t>(packed_row);
  const std::int32_t query = op.q.row + row / op.q.rows * op.q.row_step + row % op.q.rows;
  return zigzag_position(static_cast<std::int32_t>(key), op.k.rows) <=
         zigzag_position(query, op.k.rows);
}

Expected element(const Attention& op, const DeviceTensors& t, std::int64_t row, std::int64_t col) {
  const std::int64_t head = col / op.head_dim;
  const std::int64_t kv_begin = head / (op.heads / op.kv_heads) * op.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(op.head_dim));
  double weights = 0;
  double sum = 0;
  double magnitude = 0;
  for (std::int64_t key = 0; key < op.k.rows; ++key) {
    if (!sees(op, row, key)) continue;
    double score = 0;
    for (std::int64_t i = 0; i < op.head_dim; ++i) {
      score += t.at(op.q, row, head * op.head_dim + i) * t.at(op.k, key, kv_begin + i);
    }
    const double weight = std::exp(score * scale);
    const double value = t.at(op.v, key, kv_begin + col % op.head_dim);
    weights += weight;
    sum += weight * value;
    magnitude += std::abs(weight * value);
  }
  // Scores are sums too, and narrow weights are rounded.
  const double unit = unit_roundoff(dtype_of(op.o, t));
  const double underflow = underflow_error(dtype_of(op.o, t));
  const double relative = unit + 64 * kFloatUnit * (1 + static_cast<double>(op.head_dim));
  const double value = sum / weights;
  return {value, relative * magnitude / weights + unit * std::abs(value) +
                     underflow * static_cast<double>(op.k.rows + 1)};
}

Expected element(const Elementwise& op, const DeviceTensors& t, std::int64_t row,
                 std::int64_t col) {
  const double x = t.at(op.x, row, col);
  double value = x > 0 ? x : 0;
  if (op.kind == Activation::gelu) value = x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  if (op.kind == Activation::swiglu) {
    value = x / (1 + std::exp(-x)) * t.at(op.x, row, col + op.y.cols);
  }
  return summed(value, std::abs(value), 8, dtype_of(op.y, t));
}

/// f'(x), of swiglu silu'(x).
double slope(Activation kind, double x) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  if (kind == Activation::relu) return x > 0 ? 1 : 0;
  if (kind == Activation::swiglu) return sigmoid * (1 + x * (1 - sigmoid));
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) * 0.3989422804014327;
}

Expected element(const ActivationGradient& op, const DeviceTensors& t, std::int64_t row,
                 std::int64_t col) {
  const bool gated = op.kind == Activation::swiglu;
  const bool of_up = col >= op.dy.cols;
  const std::int64_t pair = of_up ? col - op.dy.cols : col;
  const double dy = t.at(op.dy, row, pair);
  const double x = t.at(op.x, row, pair);
  if (op.kind == Activation::relu) return {dy * slope(op.kind, x), 0};
  if (of_up) {
    const double value = dy * x / (1 + std::exp(-x));
    return summed(value, std::abs(value), 8, dtype_of(op.dx, t));
  }
  const double above = dy * (gated ? t.at(op.x, row, op.dy.cols + col) : 1);
  return summed(above * slope(op.kind, x), std::abs(above), 8, dtype_of(op.dx, t));
}

double rms(const View& x, const DeviceTensors& t, std::int64_t row) {
  double squares = 0;
  for (std::int64_t col = 0; col < x.cols; ++col) squares += t.at(x, row, col) * t.at(x, row, col);
  return std::sqrt(squares / x.cols + kNormEpsilon);
}

Expected element(const Norm& op, const DeviceTensors& t, std::int64_t row, std::int64_t col) {
  const double value = t.at(op.x, row, col) / rms(op.x, t, row) * t.at(op.gamma, 0, col);
  return summed(value, std::abs(value), op.x.cols + 8, dtype_of(op.y, t));
}

Expected element(const NormGradient& op, const DeviceTensors& t, std::int64_t row,
                 std::int64_t col) {
  const double root = rms(op.x, t, row);
  double along = 0;
  double magnitude = 0;
  for (std::int64_t i = 0; i < op.x.cols; ++i) {
    const double product =
        t.at(op.dy, row, i) * t.at(op.gamma, 0, i) * t.at(op.x, row, i) / root / op.x.cols;
    along += product;
    magnitude += std::abs(product);
  }
  const double scaled = t.at(op.dy, row, col) * t.at(op.gamma, 0, col);
  const double normed = t.at(op.x, row, col) / root;
  return summed((scaled - normed * along) / root,
                (std::abs(scaled) + std::abs(normed) * magnitude) / root, 2.0 * op.x.cols + 8,
                dtype_of(op.dx, t));
}

Expected element(const GammaGradient& op, const DeviceTensors& t, std::int64_t /*row*/,
                 std::int64_t col) {
  double sum = op.adds ? t.at(op.d, 0, col) : 0;
  double magnitude = std::abs(sum);
  for (std::int64_t row = 0; row < op.x.total_rows(); ++row) {
    const double term = t.at(op.dy, row, col) * t.at(op.x, row, col) / rms(op.x, t, row);
    sum += term;
    magnitude += std::abs(term);
  }
  return summed(sum, magnitude, static_cast<double>(op.x.total_rows() + op.x.cols + 8),
                dtype_of(op.d, t));
}

Expected element(const Residual& op, const DeviceTensors& t, std::int64_t row, std::int64_t col) {
  const double x = t.at(op.x, row, col);
  const double r = t.at(op.r, row, col);
  return summed(x + r, std::abs(x + r), 0, dtype_of(op.y, t));
}

Expected element(const Adam& op, const DeviceTensors& t, std::size_t target, std::int64_t row,
                 std::int64_t col) {
  const double g = t.at(op.g, row, col);
  const double m = (1 - kAdamBeta1) * g;
  const double old_m = kAdamBeta1 * t.at(op.m, row, col);
  const double v = kAdamBeta2 * std::abs(t.at(op.v, row, col)) + (1 - kAdamBeta2) * g * g;
  if (target == 1) return summed(old_m + m, std::abs(old_m) + std::abs(m), 4, DType::f32);
  if (target == 2) return summed(v, v, 6, DType::f32);
  const double kept = kAdamKept * t.at(op.w, row, col);
  const double factor = kAdamStepSize / (std::sqrt(v * kAdamUnbiased) + kAdamEpsilon);
  return summed(kept - factor * (old_m + m),
                std::abs(kept) + factor * (std::abs(old_m) + std::abs(m)), 16,
                dtype_of(target == 0 ? op.new_w : *op.copy, t));
}

Expected element(const Accumulate& op, const DeviceTensors& t, std::int64_t row, std::int64_t col) {
  double sum = t.at(op.a, row, col);
  double magnitude = std::abs(sum);
  for (std::int32_t strip = 0; strip < op.terms.strips; ++strip) {
    const double term = t.at(op.terms.strip(strip), row, col);
    sum += term;
    magnitude += std::abs(term);
  }
  return summed(sum, magnitude, op.terms.strips, dtype_of(op.d, t));
}

Expected element(const Copy& op, const DeviceTensors& t, std::int64_t row, std::int64_t col) {
  const double value = t.at(op.s, row, col);
  if (dtype_of(op.d, t) == dtype_of(op.s, t)) return {value, 0};
  return summed(value, 0, 0, dtype_of(op.d, t));
}

std::vector<Expected> all_elements(const AttentionGradient& op, const DeviceTensors& t) {
  const auto packed = [&](const View& view) {
    std::vector<double> values;
    for (std::int64_t row = 0; row < view.total_rows(); ++row) {
      for (std::int64_t col = 0; col < view.cols; ++col) values.push_back(t.at(view, row, col));
    }
    return values;
  };
  const ExpectedGradient gradient = AttentionGradientReference(op, {.d_o = packed(op.d_o),
                                                                    .q = packed(op.q),
                                                                    .k = packed(op.k),
                                                                    .v = packed(op.v),
                                                                    .dk = packed(op.dk),
                                                                    .dv = packed(op.dv),
                                                                    .dtype = dtype_of(op.q, t),
                                                                    .sums = dtype_of(op.dk, t)})
                                        .gradient();
  std::vector<Expected> expected;
  for (const auto* part : {&gradient.dq, &gradient.dk, &gradient.dv}) {
    for (const BoundedValue& element : *part) expected.push_back({element.value, element.bound});
  }
  return expected;
}

/// Of an op with one target.
template <class Op>
std::vector<Expected> all_elements(const Op& op, const DeviceTensors& t) {
  const View target = writes(op).front();
  std::vector<Expected> expected;
  for (std::int64_t row = 0; row < target.total_rows(); ++row) {
    for (std::int64_t col = 0; col < target.cols; ++col)
      expected.push_back(element(op, t, row, col));
  }
  return expected;
}

}  // namespace

std::vector<Expected> reference(const Compute& op, const DeviceTensors& tensors) {
  return std::visit([&](const auto& o) { return all_elements(o, tensors); }, op);
}

}  // namespace commfuse::fake
