// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/cost_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::size_t kListedOps = 10;  // in a refusal

/// The nearest entries on both sides of a key, in one size.
struct Neighbours {
  const OpCosts::value_type* below = nullptr;
  const OpCosts::value_type* above = nullptr;

  [[nodiscard]] bool complete() const { return below != nullptr && above != nullptr; }
};

/// The only size in which two keys of one kind differ; nothing where they differ in several.
std::optional<std::size_t> only_difference(const OpKey& a, const OpKey& b) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.sizes[i] == b.sizes[i]) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

double ratio_of(const Neighbours& around, std::size_t size) {
  return static_cast<double>(around.above->first.sizes[size]) /
         static_cast<double>(around.below->first.sizes[size]);
}

double between(const Neighbours& around, std::size_t size, const OpKey& key) {
  const auto at = [&](const OpKey& k) { return static_cast<double>(k.sizes[size]); };
  const auto& [below, below_cost] = *around.below;
  const auto& [above, above_cost] = *around.above;
  const double share = (at(key) - at(below)) / (at(above) - at(below));
  return below_cost.ns + share * (above_cost.ns - below_cost.ns);
}

}  // namespace

std::optional<double> CostTable::find_ns(const OpKey& key) const {
  if (const auto exact = costs_.find(key); exact != costs_.end()) return exact->second.ns;
  std::array<Neighbours, 3> around;
  // Keys of one kind follow each other, from the smallest sizes on.
  for (auto it = costs_.lower_bound({key.kind, key.how, {}});
       it != costs_.end() && it->first.kind == key.kind && it->first.how == key.how; ++it) {
    const auto size = only_difference(it->first, key);
    if (!size) continue;
    Neighbours& nearest = around[*size];
    const std::int64_t place = it->first.sizes[*size];
    if (place < key.sizes[*size]) {
      nearest.below = &*it;  // they come in ascending order
    } else if (nearest.above == nullptr) {
      nearest.above = &*it;
    }
  }
  std::optional<std::size_t> best;
  for (std::size_t size = 0; size < around.size(); ++size) {
    if (!around[size].complete()) continue;
    if (!best || ratio_of(around[size], size) < ratio_of(around[*best], *best)) best = size;
  }
  if (!best) return std::nullopt;
  return between(around[*best], *best, key);
}

Picoseconds CostTable::time(const Compute& op, std::span<const Tensor> tensors) const {
  const OpKey key = key_of(op, tensors);
  const std::optional<double> ns = find_ns(key);
  if (!ns) throw UsageError(fmt::format("{} has no time of {}", name_, describe(key)));
  return picoseconds(*ns * 1e-9);
}

void CostTable::cover(const Plan& plan, OpCoverage& coverage) const {
  for (const Op& op : plan.ops) {
    const auto compute = compute_of(op);
    if (!compute) continue;
    const OpKey key = key_of(*compute, plan.tensors);
    std::string text = describe(key);
    if (coverage.asked.contains(text)) continue;
    if (!find_ns(key)) coverage.unknown.push_back(text);
    coverage.asked.insert(std::move(text));
  }
}

std::string CostTable::refusal(const OpCoverage& coverage) const {
  const std::size_t unknown = coverage.unknown.size();
  if (unknown == 0) return "";
  const auto listed = std::span(coverage.unknown).first(std::min(unknown, kListedOps));
  std::string text = fmt::format("{} lacks {} of {} ops: {}", name_, unknown, coverage.asked.size(),
                                 fmt::join(listed, "; "));
  if (unknown > kListedOps) text += fmt::format("; and {} more", unknown - kListedOps);
  return text;
}

double CostTable::best_gemm_flops_per_second() const {
  double best = 0;
  for (const auto& [key, cost] : costs_) {
    if (key.kind != "gemm" || cost.ns <= 0) continue;
    double flops = 2;
    for (const std::int64_t size : key.sizes) flops *= static_cast<double>(size);
    best = std::max(best, flops / (cost.ns * 1e-9));
  }
  return best;
}

}  // namespace commfuse
