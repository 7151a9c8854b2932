// SPDX-License-Identifier: Apache-2.0
// Norms and gradients in plain order, in fp32.
#include <cmath>

#include "tests/suite/plain_run.h"

namespace commfuse {
namespace {

/// f'(x), of swiglu silu'(x).
float slope(Activation kind, float x) {
  if (kind == Activation::relu) return x > 0 ? 1.0F : 0.0F;
  if (kind == Activation::gelu) {
    return 0.5F * std::erfc(-x * 0.70710678F) + x * 0.39894228F * std::exp(-0.5F * x * x);
  }
  const float sigmoid = 1 / (1 + std::exp(-x));
  return sigmoid * (1 + x * (1 - sigmoid));
}

}  // namespace

float PlainRun::rms(const View& x, std::int64_t row) {
  float squares = 0;
  for (std::int32_t j = 0; j < x.cols; ++j) squares += at(x, row, j).value * at(x, row, j).value;
  return std::sqrt(squares / static_cast<float>(x.cols) + static_cast<float>(kNormEpsilon));
}

void PlainRun::apply(const ActivationGradient& op) {
  const bool gated = op.kind == Activation::swiglu;
  for (std::int64_t i = 0; i < op.dy.total_rows(); ++i) {
    for (std::int32_t j = 0; j < op.dy.cols; ++j) {
      const Element dy = at(op.dy, i, j);
      const float x = at(op.x, i, j).value;
      const float factor = slope(op.kind, x) * (gated ? at(op.x, i, op.dy.cols + j).value : 1.0F);
      // The slope of relu changes no sum that stands behind dy.
      const double magnitude =
          op.kind == Activation::relu ? dy.magnitude * double{factor} : std::abs(dy.value * factor);
      store(at(op.dx, i, j), op.dx.tensor, dy.value * factor, magnitude);
      if (!gated) continue;
      const float silu = x / (1 + std::exp(-x));
      store(at(op.dx, i, op.dy.cols + j), op.dx.tensor, dy.value * silu, std::abs(dy.value * silu));
    }
  }
}

void PlainRun::apply(const Norm& op) {
  for (std::int64_t i = 0; i < op.x.total_rows(); ++i) {
    const float root = rms(op.x, i);
    for (std::int32_t j = 0; j < op.x.cols; ++j) {
      const float value = at(op.x, i, j).value / root * at(op.gamma, 0, j).value;
      store(at(op.y, i, j), op.y.tensor, value, std::abs(value));
    }
  }
}

void PlainRun::apply(const NormGradient& op) {
  for (std::int64_t i = 0; i < op.x.total_rows(); ++i) {
    const float root = rms(op.x, i);
    const auto scaled = [&](std::int32_t j) {
      return at(op.dy, i, j).value * at(op.gamma, 0, j).value;
    };
    float sum = 0;
    for (std::int32_t j = 0; j < op.x.cols; ++j) sum += scaled(j) * at(op.x, i, j).value;
    const float along = sum / static_cast<float>(op.x.cols) / (root * root);
    for (std::int32_t j = 0; j < op.x.cols; ++j) {
      const float value = (scaled(j) - at(op.x, i, j).value * along) / root;
      store(at(op.dx, i, j), op.dx.tensor, value, std::abs(value));
    }
  }
}

void PlainRun::apply(const GammaGradient& op) {
  for (std::int32_t j = 0; j < op.x.cols; ++j) {
    Element& d = at(op.d, 0, j);
    // A sum over tiles: the first of them finds poison.
    const Element before = op.adds && !std::isnan(d.value) ? d : Element{};
    float sum = 0;
    double magnitude = before.magnitude;
    for (std::int64_t i = 0; i < op.x.total_rows(); ++i) {
      const float term = at(op.dy, i, j).value * (at(op.x, i, j).value / rms(op.x, i));
      sum += term;
      magnitude += std::abs(term);
    }
    store(d, op.d.tensor, sum + before.value, magnitude);
  }
}

}  // namespace commfuse
