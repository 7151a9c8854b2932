// SPDX-License-Identifier: Apache-2.0
// The gradient of attention in plain order, in fp32: one query row and head after the other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/suite/plain_run.h"

namespace commfuse {

void PlainRun::apply(const AttentionGradient& op) {
  std::vector<Sum> dk(static_cast<std::size_t>(op.k.elements()));
  std::vector<Sum> dv(dk.size());
  for (std::int64_t row = 0; row < op.q.total_rows(); ++row) {
    for (std::int32_t head = 0; head < op.heads; ++head) attend_back(op, row, head, dk, dv);
  }
  const auto store_sums = [&](const View& view, const std::vector<Sum>& sums) {
    // A sum over tiles: the first of them finds poison.
    const bool adds = op.adds && !std::isnan(at(view, 0, 0).value);
    for (std::int64_t row = 0; row < view.total_rows(); ++row) {
      for (std::int32_t col = 0; col < view.cols; ++col) {
        Element& element = at(view, row, col);
        const Element before = adds ? element : Element{};
        const Sum& sum = sums[static_cast<std::size_t>(row * view.cols + col)];
        store(element, view.tensor, sum.value + before.value, sum.magnitude + before.magnitude);
      }
    }
  };
  store_sums(op.dk, dk);
  store_sums(op.dv, dv);
}

void PlainRun::attend_back(const AttentionGradient& op, std::int64_t row, std::int32_t head,
                           std::span<Sum> dk, std::span<Sum> dv) {
  const auto tokens = static_cast<std::int32_t>(op.k.total_rows());
  const View strip = op.q.strip(static_cast<std::int32_t>(row / op.q.rows));
  const auto query_row = static_cast<std::int32_t>(strip.row + row % op.q.rows);
  const std::int32_t col = head * op.head_dim;
  const std::int32_t kv_col = head / (op.heads / op.kv_heads) * op.head_dim;
  const float scale = 1 / std::sqrt(static_cast<float>(op.head_dim));
  const auto product = [&](const View& queries, const View& keys, std::int32_t token) {
    float sum = 0;
    for (std::int32_t c = 0; c < op.head_dim; ++c) {
      sum += at(queries, row, col + c).value * at(keys, token, kv_col + c).value;
    }
    return sum;
  };
  std::vector<float> weights(static_cast<std::size_t>(tokens), -INFINITY);
  for (std::int32_t t = 0; t < tokens; ++t) {
    const bool hidden =
        op.mask == Mask::causal && zigzag_position(t, tokens) > zigzag_position(query_row, tokens);
    if (!hidden) weights[static_cast<std::size_t>(t)] = scale * product(op.q, op.k, t);
  }
  const float largest = *std::max_element(weights.begin(), weights.end());
  float total = 0;
  for (float& weight : weights) total += weight = std::exp(weight - largest);
  float mean = 0;
  for (std::int32_t t = 0; t < tokens; ++t) {
    float& weight = weights[static_cast<std::size_t>(t)];
    weight /= total;
    mean += weight * product(op.d_o, op.v, t);
  }
  std::vector<Sum> dq(static_cast<std::size_t>(op.head_dim));
  for (std::int32_t t = 0; t < tokens; ++t) {
    const float weight = weights[static_cast<std::size_t>(t)];
    const float slope = scale * weight * (product(op.d_o, op.v, t) - mean);
    for (std::int32_t c = 0; c < op.head_dim; ++c) {
      const auto key = static_cast<std::size_t>(t * op.k.cols + kv_col + c);
      dv[key].add(weight * at(op.d_o, row, col + c).value);
      dk[key].add(slope * at(op.q, row, col + c).value);
      dq[static_cast<std::size_t>(c)].add(slope * at(op.k, t, kv_col + c).value);
    }
  }
  for (std::int32_t c = 0; c < op.head_dim; ++c) {
    const Sum& sum = dq[static_cast<std::size_t>(c)];
    store(at(op.dq, row, col + c), op.dq.tensor, sum.value, sum.magnitude);
  }
}

}  // namespace commfuse
