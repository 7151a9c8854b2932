// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "suite/rounding.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// exp in fp32 is off by a few units roundoff; 16 are allowed.
constexpr double kExpError = 16 * kUnitRoundoff32;

/// Keys and values of one kv head, all tokens, row major.
struct KvHead {
  std::vector<float> k;
  std::vector<float> v;
  double largest_key = 0;    // 2-norm
  double largest_value = 0;  // absolute value of an element
};

std::vector<float> load_head(const Shape& shape, TpspInput input, std::int32_t head,
                             const Source& source) {
  const auto width = static_cast<std::size_t>(shape.head_dim);
  const Fill part =
      piece_of(tpsp_input(shape, input), {.rows = shape.tokens, .cols = shape.head_dim}, 0,
               head * shape.head_dim);
  std::vector<float> values(static_cast<std::size_t>(shape.tokens) * width);
  for (std::int32_t row = 0; row < shape.tokens; ++row) {
    fill_row(part, source, row,
             std::span(values).subspan(static_cast<std::size_t>(row) * width, width));
  }
  return values;
}

KvHead load(const Shape& shape, std::int32_t head, const Source& source) {
  KvHead kv{load_head(shape, TpspInput::k, head, source),
            load_head(shape, TpspInput::v, head, source)};
  const auto width = static_cast<std::size_t>(shape.head_dim);
  for (std::size_t at = 0; at < kv.k.size(); at += width) {
    const double length = norms_of(std::span<const float>(kv.k).subspan(at, width)).root();
    kv.largest_key = std::max(kv.largest_key, length);
  }
  kv.largest_value = norms_of(std::span<const float>(kv.v)).max;
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

class Attending {
 public:
  Attending(const Shape& shape, const KvHead& kv) : shape_(shape), kv_(kv) {}

  /// Writes the head's columns [first_col, first_col + head_dim) of row `i` of `o`.
  void row(std::span<const double> q, std::int32_t query_row, Rows& o, std::int32_t i,
           std::int32_t first_col) const {
    const Weights weights = weights_of(q, query_row);
    for (std::int32_t token = 0; token < shape_.tokens; ++token) {
      const double weight = weights.value[static_cast<std::size_t>(token)];
      if (weight == 0) continue;
      const float* value = row_of(kv_.v, token);
      for (std::int32_t c = 0; c < shape_.head_dim; ++c) {
        o.value[o.at(i, first_col + c)] += weight * value[c];
      }
    }
    for (std::int32_t c = 0; c < shape_.head_dim; ++c) bound(weights, o, o.at(i, first_col + c));
  }

 private:
  [[nodiscard]] const float* row_of(const std::vector<float>& values, std::int32_t token) const {
    return values.data() + std::int64_t{token} * shape_.head_dim;
  }

  [[nodiscard]] Weights weights_of(std::span<const double> q, std::int32_t query_row) const {
    const double scale = 1 / std::sqrt(double{1} * shape_.head_dim);
    std::vector<double> scores(static_cast<std::size_t>(shape_.tokens), -INFINITY);
    for (std::int32_t token = 0; token < shape_.tokens; ++token) {
      if (shape_.causal && position(shape_, token) > position(shape_, query_row)) continue;
      const float* key = row_of(kv_.k, token);
      double sum = 0;
      for (std::size_t c = 0; c < q.size(); ++c) sum += q[c] * key[c];
      scores[static_cast<std::size_t>(token)] = sum * scale;
    }
    const double products = norms_of(q).root() * kv_.largest_key * scale;
    return softmax(std::move(scores), accumulation_error(shape_.head_dim + 2) * products);
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
                         kv_.largest_value * accumulation_error(shape_.tokens);
    const double storing = unit * (size + error) + small;
    o.error[at] = error + storing;
    o.scale[at] = normalising + mixing * weights.root + vanishing_root +
                  kv_.largest_value * accumulation_scale(shape_.tokens) + storing;
  }

  const Shape& shape_;
  const KvHead& kv_;
};

}  // namespace

Rows attend(const Shape& shape, Range heads, std::span<const std::int32_t> rows,
            const Source& source) {
  Rows o(static_cast<std::int32_t>(rows.size()), heads.count * shape.head_dim);
  const Rows q = input_rows(tpsp_input(shape, TpspInput::q), {heads.first * shape.head_dim, o.cols},
                            rows, source);
  const std::int32_t group = shape.heads / shape.kv_heads;
  for (std::int32_t head = heads.first; head < heads.first + heads.count;) {
    const KvHead kv = load(shape, head / group, source);
    const Attending attending(shape, kv);
    const std::int32_t stop = std::min((head / group + 1) * group, heads.first + heads.count);
    for (; head < stop; ++head) {
      const std::int32_t col = (head - heads.first) * shape.head_dim;
      for (std::int32_t i = 0; i < o.count; ++i) {
        const auto query = std::span<const double>(q.value).subspan(
            q.at(i, col), static_cast<std::size_t>(shape.head_dim));
        attending.row(query, rows[static_cast<std::size_t>(i)], o, i, col);
      }
    }
  }
  return o;
}

}  // namespace commfuse
