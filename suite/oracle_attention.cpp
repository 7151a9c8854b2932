// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "suite/rounding.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// exp in fp32 is off by a few units roundoff; 16 are allowed.
constexpr double kExpError = 16 * kUnitRoundoff32;

/// Keys and values of one kv head, all tokens.
struct KvHead {
  Rows k;
  Rows v;
  double largest_key = 0;    // 2-norm
  double key_error = 0;      // 2-norm, of the key that is furthest off
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
  double relative_error = 0;
  double root = 0;  // of the sum of squares
};

Weights softmax(std::vector<double> scores, double score_error) {
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
  Weights weights{std::move(scores)};
  Norms norms;
  for (double& weight : weights.value) norms.add(weight /= sum);
  weights.root = norms.root();
  // Score and maximum are each off by score_error; their difference is rounded once more.
  const double exponent_error = 2 * score_error + kUnitRoundoff32 * (largest - smallest);
  weights.relative_error = std::expm1(exponent_error) + kExpError;
  return weights;
}

/// One row of one head's query.
struct Query {
  std::span<const double> value;
  std::span<const double> error;
};

class Attending {
 public:
  Attending(const Shape& shape, const KvHead& kv) : shape_(shape), kv_(kv) {}

  /// Writes the head's columns [first_col, first_col + head_dim) of row `i` of `o`.
  void row(const Query& q, std::int32_t query_row, Rows& o, std::int32_t i,
           std::int32_t first_col) const {
    const Weights weights = weights_of(q, query_row);
    for (std::int32_t token = 0; token < shape_.tokens; ++token) {
      const double weight = weights.value[static_cast<std::size_t>(token)];
      if (weight == 0) continue;
      const double* value = row_of(kv_.v, token);
      for (std::int32_t c = 0; c < shape_.head_dim; ++c) {
        o.value[o.at(i, first_col + c)] += weight * value[c];
      }
    }
    for (std::int32_t c = 0; c < shape_.head_dim; ++c) bound(weights, o, o.at(i, first_col + c));
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
    // Each factor may be off by its own error (Cauchy-Schwarz), and the sum is rounded.
    const double query = norms_of(q.value).root();
    const double query_error = norms_of(q.error).root();
    const double off = query_error * (kv_.largest_key + kv_.key_error) + query * kv_.key_error;
    const double products = query * kv_.largest_key + off;
    return softmax(std::move(scores),
                   scale * (off + accumulation_error(shape_.head_dim + 2) * products));
  }

  /// Weights may be rounded to the dtype before they meet the values, whose signs are random and
  /// independent of the weights' errors; small ones are subnormal in fp16, off by a constant. The
  /// sum of the weights is off by as much as they are.
  void bound(const Weights& weights, Rows& o, std::size_t at) const {
    const double unit = unit_roundoff(shape_.dtype);
    const bool narrow = is_narrow(shape_.dtype);
    const double each = weights.relative_error + (narrow ? unit : 0);
    const double small = underflow_error(shape_.dtype);
    const double vanishing = narrow ? kv_.largest_value * small * shape_.tokens : 0;
    const double vanishing_root =
        narrow ? kv_.largest_value * small * std::sqrt(double{1} * shape_.tokens) : 0;
    const double size = std::abs(o.value[at]);
    const double normalising = size * (weights.relative_error + accumulation_error(shape_.tokens));
    const double mixing = kv_.largest_value * each;
    const double error = normalising + mixing * std::min(1.0, kLambda * weights.root) +
                         std::min(vanishing, kLambda * vanishing_root) +
                         kv_.largest_value * accumulation_error(shape_.tokens) +
                         kv_.value_error * (1 + weights.relative_error);
    const double storing = unit * (size + error) + small;
    o.error[at] = error + storing;
    o.scale[at] = normalising + mixing * weights.root + vanishing_root +
                  kv_.largest_value * accumulation_scale(shape_.tokens) + kv_.value_scale + storing;
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
        attending.row({of_head(q.value), of_head(q.error)}, rows[static_cast<std::size_t>(i)], o, i,
                      col);
      }
    }
  }
  return o;
}

}  // namespace commfuse
