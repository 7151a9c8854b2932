// SPDX-License-Identifier: Apache-2.0
// Of one query row and head, with P_t the weights of the keys t it sees, g_t = dO v_t and D the
// mean of g under P: slopes s_t = P_t (g_t - D) / sqrt(head_dim).
//
// What a weight is off by is relative: by the error of its own score, and by that of the sum of all
// weights, in which errors of random sign average out. Errors of g reach a slope by themselves and
// through D. Results are sums of weights or slopes, whose signs are independent of their errors,
// times rows of dO, Q or K.
//
// Exact data have one-hot softmaxes where head_dim holds the codes of all positions. Then every
// slope is 0 (g of the one key is D), so dQ and dK are exactly 0 and say nothing about an
// implementation, and dV is exact as long as its sums of whole numbers stay below 2^8.
#include "suite/oracle_attention_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "suite/oracle_number.h"
#include "suite/oracle_sum.h"
#include "suite/rounding.h"

namespace commfuse {
namespace {

/// Four sums at a time: each waits for itself alone.
double inner_product(std::span<const double> a, const double* b) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= a.size(); i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// A row of some head, with the 2-norms of its values and its errors.
struct HeadRow {
  std::span<const double> value;
  double size = 0;
  double off = 0;
};

HeadRow head_row(const Rows& rows, std::int32_t row, std::int32_t first, std::int32_t cols) {
  const auto of = [&](const std::vector<double>& all) {
    return std::span(all).subspan(rows.at(row, first), static_cast<std::size_t>(cols));
  };
  return {of(rows.value), norms_of(of(rows.value)).root(), norms_of(of(rows.error)).root()};
}

/// A product of two rows, summed in fp32.
Number product_of(const HeadRow& a, const HeadRow& b) {
  const double off = a.off * (b.size + b.off) + a.size * b.off;
  const auto terms = static_cast<std::int64_t>(a.value.size()) + 2;
  const double rounding = a.size * b.size + off;
  return {inner_product(a.value, b.value.data()),
          {off + accumulation_error(terms) * rounding, off + accumulation_scale(terms) * rounding}};
}

/// Keys and values of one kv head, all tokens.
struct HeadKeys {
  Rows k, v;
  std::vector<HeadRow> key, value;

  HeadKeys(const AttentionInputs& inputs, std::int32_t head)
      : k(inputs.k(head)), v(inputs.v(head)) {
    for (std::int32_t row = 0; row < k.count; ++row) {
      key.push_back(head_row(k, row, 0, k.cols));
      value.push_back(head_row(v, row, 0, v.cols));
    }
  }
  HeadKeys(const HeadKeys&) = delete;  // rows are views of k and v
  HeadKeys& operator=(const HeadKeys&) = delete;
};

std::int32_t place_of(const Shape& shape, std::int32_t row) {
  return shape.causal ? zigzag_position(row, shape.tokens) : row;
}

/// A key that a query row sees.
struct SeenKey {
  std::int32_t token = 0;
  Number weight;  // P, as it is stored before it is multiplied
  Number slope;
};

/// What one query row and head makes of the keys of its kv head.
class SeenKeys {
 public:
  SeenKeys(const Shape& shape, const HeadKeys& keys) : shape_(shape), keys_(keys) {}

  /// Valid until the next call.
  std::span<const SeenKey> of(const HeadRow& q, const HeadRow& d_o, std::int32_t query_row) {
    score(q, d_o, query_row);
    weigh();
    differentiate();
    return seen_;
  }

 private:
  /// Leaves scores as weights, and what comes from above as slopes.
  void score(const HeadRow& q, const HeadRow& d_o, std::int32_t query_row) {
    seen_.clear();
    for (std::int32_t token = 0; token < shape_.tokens; ++token) {
      if (shape_.causal && place_of(shape_, token) > place_of(shape_, query_row)) continue;
      const auto t = static_cast<std::size_t>(token);
      Number score = product_of(q, keys_.key[t]);
      score.value *= scale_;
      score.off.error *= scale_;
      seen_.push_back({token, score, product_of(d_o, keys_.value[t])});
    }
  }

  /// Turns scores into weights, off by what they are before they are rounded to the dtype.
  void weigh() {
    double largest = -std::numeric_limits<double>::infinity();
    for (const SeenKey& key : seen_) largest = std::max(largest, key.weight.value);
    double total = 0;
    for (SeenKey& key : seen_) {
      const double below = largest - key.weight.value;
      // The largest score is subtracted from all alike; the difference is rounded.
      const double off = std::expm1(key.weight.off.error + kUnitRoundoff32 * below);
      const double weight = std::exp(-below);
      // What is less than half of the smallest number in fp32 is 0 there.
      key.weight = {weight < underflow_error(DType::f32) ? 0 : weight,
                    {off + kFunctionError, 0}};  // relative
      total += key.weight.value;
    }
    double sum = 0;
    double squares = 0;
    for (SeenKey& key : seen_) {
      key.weight.value /= total;
      const double off = key.weight.value * key.weight.off.error;
      sum += off;
      squares += off * off;
    }
    const double of_total = std::min(sum, kLambda * std::sqrt(squares)) +
                            accumulation_error(static_cast<std::int64_t>(seen_.size()));
    for (SeenKey& key : seen_) {
      const double off = key.weight.value * (key.weight.off.error + of_total) +
                         underflow_error(DType::f32);  // also where it is taken for 0
      key.weight.off = {off, off};
    }
  }

  void differentiate() {
    RowSum sum;
    for (const SeenKey& key : seen_) sum.add(product(key.weight, key.slope));
    Rows mean(1, 1);
    sum.store(mean, 0, DType::f32, 1);
    const Number along = number_at(mean, 0);
    const Storing storing(shape_.dtype);
    const auto stored = [&](const Number& number) {
      return Number{number.value, storing.of(std::abs(number.value), number.off)};
    };
    for (SeenKey& key : seen_) {
      const double own = kFunctionError * (std::abs(key.slope.value) + std::abs(along.value));
      const double off = key.slope.off.error + along.off.error + own;
      Number slope = product(key.weight, {key.slope.value - along.value, {off, off}});
      slope.value *= scale_;
      slope.off = {slope.off.error * scale_, slope.off.error * scale_};
      key.slope = stored(slope);
      key.weight = stored(key.weight);
    }
  }

  const Shape& shape_;
  const HeadKeys& keys_;
  double scale_ = 1 / std::sqrt(static_cast<double>(shape_.head_dim));
  std::vector<SeenKey> seen_;
};

/// Sums of elements of some rows, one head wide.
class HeadSums {
 public:
  HeadSums(std::size_t rows, std::int32_t cols)
      : cols_(static_cast<std::size_t>(cols)), sums_(rows * cols_) {}

  /// factor * the columns from `first` on of a row.
  void add(std::size_t row, const Number& factor, const Rows& rows, std::int32_t of,
           std::int32_t first) {
    const std::size_t begin = rows.at(of, first);
    for (std::size_t c = 0; c < cols_; ++c) {
      sums_[row * cols_ + c].add(product(factor, number_at(rows, begin + c)));
    }
  }
  /// Into the columns from `first` on.
  void store(Rows& rows, std::int32_t first, const KeySums& how) const {
    for (std::int32_t row = 0; row < rows.count; ++row) {
      for (std::size_t c = 0; c < cols_; ++c) {
        sums_[static_cast<std::size_t>(row) * cols_ + c].store(rows, rows.at(row, first) + c,
                                                               how.dtype, how.times_stored);
      }
    }
  }

 private:
  std::size_t cols_;
  std::vector<RowSum> sums_;
};

/// Query rows that see one of the asked keys.
std::vector<std::int32_t> queries_of(const Shape& shape, std::span<const std::int32_t> keys) {
  std::vector<std::int32_t> queries(static_cast<std::size_t>(shape.tokens));
  std::iota(queries.begin(), queries.end(), 0);
  if (!shape.causal) return queries;
  std::int32_t first = shape.tokens;
  for (const std::int32_t key : keys) first = std::min(first, place_of(shape, key));
  std::erase_if(queries, [&](std::int32_t query) { return place_of(shape, query) < first; });
  return queries;
}

/// Where the asked rows are in the answer, by token; -1 for the others.
std::vector<std::int32_t> answers_by_token(const Shape& shape, std::span<const std::int32_t> rows) {
  std::vector<std::int32_t> answers(static_cast<std::size_t>(shape.tokens), -1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    answers[static_cast<std::size_t>(rows[i])] = static_cast<std::int32_t>(i);
  }
  return answers;
}

}  // namespace

Rows attend_gradient(const Shape& shape, const AttentionGradientInputs& inputs, Range heads,
                     std::span<const std::int32_t> rows) {
  const std::int32_t group = shape.heads / shape.kv_heads;
  const std::int32_t width = shape.head_dim;
  const Rows q = inputs.forward.q(heads, rows);
  const Rows d_o = inputs.d_o(heads, rows);
  Rows dq(q.count, q.cols);
  for (std::int32_t kv = heads.first / group; kv * group < heads.first + heads.count; ++kv) {
    const HeadKeys keys(inputs.forward, kv);
    SeenKeys seen(shape, keys);
    const std::int32_t stop = std::min((kv + 1) * group, heads.first + heads.count);
    for (std::int32_t head = std::max(kv * group, heads.first); head < stop; ++head) {
      const std::int32_t col = (head - heads.first) * width;
      HeadSums sums(rows.size(), width);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto row = static_cast<std::int32_t>(i);
        for (const SeenKey& key :
             seen.of(head_row(q, row, col, width), head_row(d_o, row, col, width), rows[i])) {
          sums.add(i, key.slope, keys.k, key.token, 0);
        }
      }
      sums.store(dq, col, {shape.dtype, 1});
    }
  }
  return dq;
}

KeyGradients attend_key_gradients(const Shape& shape, const AttentionGradientInputs& inputs,
                                  Range kv_heads, std::span<const std::int32_t> rows,
                                  const KeySums& sums) {
  const std::int32_t group = shape.heads / shape.kv_heads;
  const std::int32_t width = shape.head_dim;
  const auto count = static_cast<std::int32_t>(rows.size());
  KeyGradients gradients{Rows(count, kv_heads.count * width), Rows(count, kv_heads.count * width)};
  const std::vector<std::int32_t> queries = queries_of(shape, rows);
  const std::vector<std::int32_t> answers = answers_by_token(shape, rows);
  for (std::int32_t kv = kv_heads.first; kv < kv_heads.first + kv_heads.count; ++kv) {
    const HeadKeys keys(inputs.forward, kv);
    const Rows q = inputs.forward.q({kv * group, group}, queries);
    const Rows d_o = inputs.d_o({kv * group, group}, queries);
    SeenKeys seen(shape, keys);
    HeadSums dk(rows.size(), width);
    HeadSums dv(rows.size(), width);
    for (std::int32_t i = 0; i < q.count; ++i) {
      for (std::int32_t col = 0; col < group * width; col += width) {
        for (const SeenKey& key : seen.of(head_row(q, i, col, width), head_row(d_o, i, col, width),
                                          queries[static_cast<std::size_t>(i)])) {
          const std::int32_t answer = answers[static_cast<std::size_t>(key.token)];
          if (answer < 0) continue;
          dk.add(static_cast<std::size_t>(answer), key.slope, q, i, col);
          dv.add(static_cast<std::size_t>(answer), key.weight, d_o, i, col);
        }
      }
    }
    const std::int32_t first = (kv - kv_heads.first) * width;
    dk.store(gradients.dk, first, sums);
    dv.store(gradients.dv, first, sums);
  }
  return gradients;
}

}  // namespace commfuse
