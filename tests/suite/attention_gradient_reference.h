// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient in float64 by their definitions, with a bound for what sums in fp32
// and the rounding of weights, slopes and results may add: what kernels are compared with.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "suite/compute.h"
#include "suite/rounding.h"

namespace commfuse {

/// What an AttentionGradient reads, packed, and what its results are stored in.
struct AttentionGradientValues {
  std::vector<double> d_o, q, k, v;
  std::vector<double> dk = {}, dv = {};  // read where the op adds
  DType dtype = DType::f32;              // of all but dk and dv
  DType sums = DType::f32;               // of dk and dv
};

/// A number and how far off a computed one may be.
struct BoundedValue {
  double value = 0;
  double bound = 0;
};

/// Packed.
struct ExpectedGradient {
  std::vector<BoundedValue> dq, dk, dv;
};

class AttentionGradientReference {
 public:
  /// Shapes fit together (misfit()).
  AttentionGradientReference(const AttentionGradient& op, AttentionGradientValues values)
      : op_(op), in_(std::move(values)) {}

  /// The sum of dO o O, whose derivatives are the gradients.
  [[nodiscard]] double loss() const {
    double sum = 0;
    for (std::int32_t row = 0; row < op_.q.total_rows(); ++row) {
      for (std::int32_t head = 0; head < op_.heads; ++head) {
        for (const Key& key : keys(row, head)) sum += key.weight * key.slope.value;
      }
    }
    return sum;
  }

  [[nodiscard]] ExpectedGradient gradient() const {
    Sums sums{std::vector<Sum>(in_.q.size()), std::vector<Sum>(in_.k.size()),
              std::vector<Sum>(in_.v.size())};
    for (std::int32_t row = 0; row < op_.q.total_rows(); ++row) {
      for (std::int32_t head = 0; head < op_.heads; ++head) add(row, head, sums);
    }
    for (std::size_t i = 0; op_.adds && i < sums.dk.size(); ++i) {
      sums.dk[i].add(1, 0, in_.dk[i]);
      sums.dv[i].add(1, 0, in_.dv[i]);
    }
    return {rounded(sums.dq, in_.dtype), rounded(sums.dk, in_.sums), rounded(sums.dv, in_.sums)};
  }

 private:
  /// A sum, what its factors' errors may add to it, and its absolute terms.
  struct Sum {
    double value = 0;
    double error = 0;
    double magnitude = 0;
    double terms = 0;

    /// factor * exact, with the factor off by `off`.
    void add(double factor, double off, double exact) {
      value += factor * exact;
      error += off * std::abs(exact);
      magnitude += std::abs(factor * exact);
      ++terms;
    }
  };
  struct Sums {
    std::vector<Sum> dq, dk, dv;
  };
  /// A visible key of one query row and head.
  struct Key {
    std::int32_t row = 0;
    double weight = 0;
    double weight_off = 0;  // relative
    Sum slope;              // of the loss by the weight
  };

  [[nodiscard]] std::size_t query_at(std::int32_t row, std::int32_t head) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(op_.q.cols) +
           static_cast<std::size_t>(head * op_.head_dim);
  }
  [[nodiscard]] std::size_t key_at(std::int32_t row, std::int32_t head) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(op_.k.cols) +
           static_cast<std::size_t>(head / (op_.heads / op_.kv_heads) * op_.head_dim);
  }
  [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(op_.head_dim)); }

  [[nodiscard]] bool sees(std::int32_t row, std::int32_t key) const {
    if (op_.mask == Mask::full) return true;
    const auto tokens = static_cast<std::int32_t>(op_.k.total_rows());
    const std::int32_t query = op_.q.strip(row / op_.q.rows).row + row % op_.q.rows;
    return zigzag_position(key, tokens) <= zigzag_position(query, tokens);
  }

  [[nodiscard]] Sum product(const std::vector<double>& queries, std::size_t query,
                            const std::vector<double>& keys, std::size_t key) const {
    Sum sum;
    for (std::size_t c = 0; c < static_cast<std::size_t>(op_.head_dim); ++c) {
      sum.add(queries[query + c], 0, keys[key + c]);
    }
    return sum;
  }

  [[nodiscard]] std::vector<Key> keys(std::int32_t row, std::int32_t head) const {
    std::vector<Key> keys;
    double total = 0;
    for (std::int32_t key = 0; key < op_.k.total_rows(); ++key) {
      if (!sees(row, key)) continue;
      const Sum score = product(in_.q, query_at(row, head), in_.k, key_at(key, head));
      const double weight = std::exp(scale() * score.value);
      const double off = (op_.head_dim + 8) * kUnitRoundoff32 * (scale() * score.magnitude + 10);
      total += weight;
      keys.push_back(
          {key, weight, off, product(in_.d_o, query_at(row, head), in_.v, key_at(key, head))});
    }
    double total_off = static_cast<double>(keys.size() + 2) * kUnitRoundoff32;
    for (Key& key : keys) total_off += key.weight / total * key.weight_off;
    for (Key& key : keys) {
      key.weight /= total;
      key.weight_off += total_off;
    }
    return keys;
  }

  /// What one query row and head gives to each sum. Narrow weights and slopes may be rounded before
  /// they are factors.
  void add(std::int32_t row, std::int32_t head, Sums& sums) const {
    const std::vector<Key> all = keys(row, head);
    const double unit = unit_roundoff(in_.dtype);
    const double underflow = underflow_error(in_.dtype);
    double mean = 0;
    double mean_off = 0;
    for (const Key& key : all) {
      const double terms = static_cast<double>(all.size()) + op_.head_dim + 2;
      mean += key.weight * key.slope.value;
      mean_off += key.weight * key.slope.magnitude * (key.weight_off + terms * kUnitRoundoff32);
    }
    for (const Key& key : all) {
      const double slope = scale() * key.weight * (key.slope.value - mean);
      const double slope_off =
          scale() * key.weight *
              (std::abs(key.slope.value - mean) * (key.weight_off + 4 * kUnitRoundoff32) +
               mean_off + (op_.head_dim + 2) * kUnitRoundoff32 * key.slope.magnitude) +
          unit * std::abs(slope) + underflow;
      const double weight_off = key.weight * (key.weight_off + unit) + underflow;
      for (std::size_t c = 0; c < static_cast<std::size_t>(op_.head_dim); ++c) {
        const std::size_t at = key_at(key.row, head) + c;
        const std::size_t query = query_at(row, head) + c;
        sums.dv[at].add(key.weight, weight_off, in_.d_o[query]);
        sums.dk[at].add(slope, slope_off, in_.q[query]);
        sums.dq[query].add(slope, slope_off, in_.k[at]);
      }
    }
  }

  static std::vector<BoundedValue> rounded(const std::vector<Sum>& sums, DType dtype) {
    std::vector<BoundedValue> all;
    for (const Sum& sum : sums) {
      const double off = sum.error * (1 + unit_roundoff(dtype)) +
                         (sum.terms + 2) * kUnitRoundoff32 * (sum.magnitude + sum.error);
      all.push_back({sum.value, off + unit_roundoff(dtype) * (std::abs(sum.value) + off) +
                                    underflow_error(dtype)});
    }
    return all;
  }

  AttentionGradient op_;
  AttentionGradientValues in_;
};

}  // namespace commfuse
