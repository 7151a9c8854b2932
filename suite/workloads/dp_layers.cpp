// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/dp_layers.h"

#include <fmt/format.h>

#include <cmath>

#include "suite/workloads/phases.h"

namespace commfuse {
namespace {

constexpr int kLayerBits = 16;
constexpr std::uint32_t kKindShift = 24;  // more linear maps than layers make

/// Of the largest workload, the one with an optimizer, on all ranks together: W, partial and
/// gathered weights of two maps, once their result, and the old and new states; X and dY of each.
WorkSize size_of(const Shape& shape, double tokens, std::int32_t ranks) {
  const double hidden = shape.hidden;
  const double ffn = shape.ffn;
  const double layers = shape.layers;
  return {tokens * hidden * ffn * layers,
          layers * (2 * tokens * (hidden + ffn) + (6.0 * ranks + 14) * ffn * hidden)};
}

/// The most entries per row with which `maps` weights in a row stay below the limit.
std::int32_t hits_of(std::size_t maps, std::int32_t limit) {
  std::int32_t hits = kWeightHits;
  while (hits > 1 && std::pow(hits, static_cast<double>(maps)) > limit) --hits;
  return hits;
}

}  // namespace

std::vector<DpLinear> dp_linears(const Shape& shape) {
  std::vector<DpLinear> linears;
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string suffix = shape.layers > 1 ? std::to_string(layer) : std::string{};
    linears.push_back({"up" + suffix, shape.hidden, shape.ffn});
    linears.push_back({"down" + suffix, shape.ffn, shape.hidden});
  }
  return linears;
}

Fill dp_input(DpInput input, std::size_t linear, Content content, std::int32_t rows,
              std::int32_t cols) {
  return {.view = {.rows = rows, .cols = cols},
          .content = content,
          .global = (static_cast<std::uint32_t>(input) << kKindShift) +
                    static_cast<std::uint32_t>(linear),
          .width = cols};
}

std::vector<Fill> dp_chained(std::vector<Fill> weights, std::int32_t limit) {
  double size = 1;  // of a result, as a multiple of what the first map reads
  for (Fill& weight : weights) {
    weight.hits = hits_of(weights.size(), limit);
    size *= weight_bound(weight) * std::sqrt(weight.width / 3.0);
    weight.boost = static_cast<std::int32_t>(-std::round(std::log2(size)));
    size = std::ldexp(size, weight.boost);
  }
  return weights;
}

std::int32_t all_tokens(const Shape& shape, std::int32_t ranks) { return shape.tokens * ranks; }

std::string dp_unsupported(const Shape& shape, std::int32_t ranks) {
  const double tokens = double{1} * shape.tokens * ranks;
  for (const auto& reason :
       {unless_given("tokens", shape.tokens), unless_given("ffn", shape.ffn),
        unless_divisible("hidden", shape.hidden, ranks), unless_divisible("ffn", shape.ffn, ranks),
        unless_below("layers", shape.layers, kLayerBits),
        unless_below("tokens x ranks", tokens, 31),
        unless_countable("tokens x ranks x hidden x ffn x layers",
                         size_of(shape, tokens, ranks))}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

}  // namespace commfuse
