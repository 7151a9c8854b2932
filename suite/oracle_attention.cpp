// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "suite/oracle_number.h"
#include "suite/rounding.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// exp in fp32 is off by a few units roundoff; 16 are allowed.
constexpr double kExpError = 16 * kUnitRoundoff32;

/// An exponent that may be off by so much says nothing of its weight.
constexpr double kNoBound = 80;

/// Keys and values of one kv head, all tokens.
struct KvHead {
  Rows k;
  Rows v;
  double largest_key = 0;    // 2-norm
  double key_error = 0;      // 2-norm, of the key that is furthest off
  double key_scale = 0;      // of the error of an element
  double largest_value = 0;  // absolute value of an element
  double value_error = 0;
  double value_scale = 0;
};

KvHead load(const AttentionInputs& inputs, std::int32_t head) {
  KvHead kv{inputs.k(head), inputs.v(head)};
  const auto width = static_cast<std::size_t>(kv.k.cols);
  for (std::int32_t row = 0; row < kv.k.count; ++row) {
    const auto of_row = [&](const std::vector<double>& all) {
      return norms_of(std::span(all).subspan(kv.k.at(row, 0), width)).root();
    };
    kv.largest_key = std::max(kv.largest_key, of_row(kv.k.value));
    kv.key_error = std::max(kv.key_error, of_row(kv.k.error));
  }
  kv.key_scale = norms_of(std::span<const double>(kv.k.scale)).max;
  kv.largest_value = norms_of(std::span<const double>(kv.v.value)).max;
  kv.value_error = norms_of(std::span<const double>(kv.v.error)).max;
  kv.value_scale = norms_of(std::span<const double>(kv.v.scale)).max;
  return kv;
}

std::int32_t position(const Shape& shape, std::int32_t row) {
  return shape.causal ? zigzag_position(row, shape.tokens) : row;
}

/// Softmax weights of the visible keys of one query row and head (0 for the others), and how far
/// computed ones may be off.
struct Weights {
  std::vector<double> value;
  Deviation relative;
  double root = 0;  // of the sum of squares
};

Weights softmax(std::vector<double> scores, const Deviation& of_score) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double smallest = largest;
  double sum = 0;
  for (double& score : scores) {
    if (std::isinf(score)) {
      score = 0;
      continue;
    }
    smallest = std::min(smallest, score);
    score = std::exp(score - largest);
    sum += score;
  }
  Weights weights{.value = std::move(scores), .relative = {}};
  Norms norms;
  for (double& weight : weights.value) norms.add(weight /= sum);
  weights.root = norms.root();
  // Score and maximum are each off; their difference is rounded once more.
  const auto of_weight = [&](double off) {
    const double exponent = 2 * off + kUnitRoundoff32 * (largest - smallest);
    return std::expm1(std::min(exponent, kNoBound)) + kExpError;
  };
  weights.relative = {of_weight(of_score.error), of_weight(of_score.scale)};
  return weights;
}

/// One row of one head's query.
struct Query {
  std::span<const double> value;
  std::span<const double> error;
  std::span<const double> scale;
};

class Attending {
 public:
  Attending(const Shape& shape, const KvHead& kv) : shape_(shape), kv_(kv) {}

  /// Writes the head's columns [first_col, first_col + head_dim) of row `i` of `o`.
  void row(const Query& q, std::int32_t query_row, Rows& o, std::int32_t i,
           std::int32_t first_col) const {
    const Weights weights = weights_of(q, query_row);
    std::vector<double> squares(static_cast<std::size_t>(shape_.head_dim));
    for (std::int32_t token = 0; token < shape_.tokens; ++token) {
      const double weight = weights.value[static_cast<std::size_t>(token)];
      if (weight == 0) continue;
      const double* value = row_of(kv_.v, token);
      for (std::int32_t c = 0; c < shape_.head_dim; ++c) {
        const double term = weight * value[c];
        o.value[o.at(i, first_col + c)] += term;
        squares[static_cast<std::size_t>(c)] += term * term;
      }
    }
    for (std::int32_t c = 0; c < shape_.head_dim; ++c) {
      bound(weights, std::sqrt(squares[static_cast<std::size_t>(c)]), o, o.at(i, first_col + c));
    }
  }

 private:
  [[nodiscard]] static const double* row_of(const Rows& rows, std::int32_t token) {
    return rows.value.data() + rows.at(token, 0);
  }

  [[nodiscard]] Weights weights_of(const Query& q, std::int32_t query_row) const {
    const double scale = 1 / std::sqrt(double{1} * shape_.head_dim);
    std::vector<double> scores(static_cast<std::size_t>(shape_.tokens), -INFINITY);
    for (std::int32_t token = 0; token < shape_.tokens; ++token) {
      if (shape_.causal && position(shape_, token) > position(shape_, query_row)) continue;
      const double* key = row_of(kv_.k, token);
      double sum = 0;
      for (std::size_t c = 0; c < q.value.size(); ++c) sum += q.value[c] * key[c];
      scores[static_cast<std::size_t>(token)] = sum * scale;
    }
    // Each factor may be off by its own error, in the worst case (Cauchy-Schwarz) or of random sign
    // (rounding.h), and the sum is rounded.
    const double query = norms_of(q.value).root();
    const double query_error = norms_of(q.error).root();
    const double query_scale = norms_of(q.scale).max;
    const double spread = (kv_.largest_key + kv_.key_error) * query_scale + query * kv_.key_scale;
    const double off = std::min(
        query_error * (kv_.largest_key + kv_.key_error) + query * kv_.key_error, kLambda * spread);
    const double products = query * kv_.largest_key + off;
    const std::int64_t terms = shape_.head_dim + 2;
    return softmax(std::move(scores), {scale * (off + accumulation_error(terms) * products),
                                       scale * (spread + accumulation_scale(terms) * products)});
  }

  /// Weights may be rounded to the dtype before they meet the values, whose signs are random and
  /// independent of the weights' errors; small ones are subnormal in fp16, off by a constant. The
  /// sum of the weights is off by as much as they are. Values are off independently of each other.
  /// Whatever the weights, the result is a mean of values. `root` is the 2-norm of the weighted
  /// values.
  void bound(const Weights& weights, double root, Rows& o, std::size_t at) const {
    const double unit = unit_roundoff(shape_.dtype);
    const bool narrow = is_narrow(shape_.dtype);
    const double each = weights.relative.error + (narrow ? unit : 0);
    const double each_scale = weights.relative.scale + (narrow ? unit : 0);
    const double small = underflow_error(shape_.dtype);
    const double vanishing = narrow ? kv_.largest_value * small * shape_.tokens : 0;
    const double vanishing_root =
        narrow ? kv_.largest_value * small * std::sqrt(double{1} * shape_.tokens) : 0;
    const double size = std::abs(o.value[at]);
    const double sum_scale = weights.root * weights.relative.scale;
    const double normalising = size * (std::min(weights.relative.error, kLambda * sum_scale) +
                                       accumulation_error(shape_.tokens));
    const double mixing = std::min(kv_.largest_value * each, kLambda * root * each_scale);
    const double values =
        std::min(kv_.value_error, kLambda * weights.root * kv_.value_scale) * (1 + each);
    const double most = 2 * (kv_.largest_value + kv_.value_error);
    const double error = std::min(most, normalising + mixing + values +
                                            std::min(vanishing, kLambda * vanishing_root) +
                                            kv_.largest_value * accumulation_error(shape_.tokens));
    const double scale =
        std::min(most, size * (sum_scale + accumulation_scale(shape_.tokens)) + root * each_scale +
                           weights.root * kv_.value_scale * (1 + each) + vanishing_root +
                           kv_.largest_value * accumulation_scale(shape_.tokens));
    const double storing = unit * (size + error) + small;
    o.error[at] = error + storing;
    o.scale[at] = scale + storing;
  }

  const Shape& shape_;
  const KvHead& kv_;
};

}  // namespace

Rows all_rows(const Fill& global, Range cols, const Source& source) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(global.view.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return input_rows(global, cols, rows, source);
}

AttentionInputs attention_inputs(const Shape& shape, const Source& source) {
  const auto head_of = [=](TpspInput input) {
    return [=](std::int32_t head) {
      return all_rows(tpsp_input(shape, input), {head * shape.head_dim, shape.head_dim}, source);
    };
  };
  return {.q =
              [=](Range heads, std::span<const std::int32_t> rows) {
                return input_rows(tpsp_input(shape, TpspInput::q),
                                  {heads.first * shape.head_dim, heads.count * shape.head_dim},
                                  rows, source);
              },
          .k = head_of(TpspInput::k),
          .v = head_of(TpspInput::v)};
}

Rows attend(const Shape& shape, const AttentionInputs& inputs, Range heads,
            std::span<const std::int32_t> rows) {
  Rows o(static_cast<std::int32_t>(rows.size()), heads.count * shape.head_dim);
  const Rows q = inputs.q(heads, rows);
  const std::int32_t group = shape.heads / shape.kv_heads;
  for (std::int32_t head = heads.first; head < heads.first + heads.count;) {
    const KvHead kv = load(inputs, head / group);
    const Attending attending(shape, kv);
    const std::int32_t stop = std::min((head / group + 1) * group, heads.first + heads.count);
    for (; head < stop; ++head) {
      const std::int32_t col = (head - heads.first) * shape.head_dim;
      for (std::int32_t i = 0; i < o.count; ++i) {
        const auto of_head = [&](const std::vector<double>& all) {
          return std::span(all).subspan(q.at(i, col), static_cast<std::size_t>(shape.head_dim));
        };
        attending.row({of_head(q.value), of_head(q.error), of_head(q.scale)},
                      rows[static_cast<std::size_t>(i)], o, i, col);
      }
    }
  }
  return o;
}

}  // namespace commfuse
