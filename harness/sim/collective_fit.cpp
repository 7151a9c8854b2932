// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/collective_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "suite/error.h"

namespace commfuse {
namespace {

/// A measurement as shares of its own time, so that small ones count as much as large ones:
/// latency * steps + seconds_per_byte * bytes = 1.
struct Equation {
  double steps = 0;
  double bytes = 0;
};

std::vector<Equation> equations_of(CollectiveKind kind, const OpCosts& costs) {
  std::vector<Equation> equations;
  const OpKey* first = nullptr;
  for (const auto& [key, cost] : costs) {
    if (key.kind != name_of(kind) || key.sizes[0] < 2 || cost.ns <= 0) continue;
    if (first == nullptr) first = &key;
    if (key.how != first->how) {
      throw UsageError(
          fmt::format("there are times of {} over {} and over {}: record them in a "
                      "file each",
                      key.kind, first->how, key.how));
    }
    const double seconds = cost.ns * 1e-9;
    const auto others = static_cast<double>(key.sizes[0] - 1);
    equations.push_back({(kind == CollectiveKind::all_reduce ? 2 : 1) * others / seconds,
                         static_cast<double>(key.sizes[1]) / seconds});
  }
  return equations;
}

}  // namespace

std::optional<CollectiveFit> fit_collectives(CollectiveKind kind, const OpCosts& costs) {
  const std::vector<Equation> equations = equations_of(kind, costs);
  double ss = 0, sb = 0, bb = 0, s = 0, b = 0;
  for (const Equation& equation : equations) {
    ss += equation.steps * equation.steps;
    sb += equation.steps * equation.bytes;
    bb += equation.bytes * equation.bytes;
    s += equation.steps;
    b += equation.bytes;
  }
  const double determinant = ss * bb - sb * sb;
  // Blocks of one size make all equations multiples of each other, but for rounding.
  if (!(determinant > 1e-9 * ss * bb)) return {};
  double latency = (s * bb - b * sb) / determinant;
  double seconds_per_byte = (ss * b - sb * s) / determinant;
  if (latency < 0) {
    latency = 0;
    seconds_per_byte = b / bb;
  } else if (seconds_per_byte < 0) {
    seconds_per_byte = 0;
    latency = s / ss;
  }
  CollectiveFit fit{
      {seconds_per_byte > 0 ? 1 / seconds_per_byte : 0, latency}, 0, equations.size()};
  for (const Equation& equation : equations) {
    const double model = latency * equation.steps + seconds_per_byte * equation.bytes;
    fit.largest_deviation = std::max(fit.largest_deviation, std::abs(model - 1));
  }
  return fit;
}

std::string describe(CollectiveKind kind, const CollectiveFit& fit) {
  const std::string rate = fit.step.bytes_per_second > 0
                               ? fmt::format("{:.3g} GB/s", fit.step.bytes_per_second * 1e-9)
                               : "no time for its bytes";
  return fmt::format("{} fitted to {} measurements: {:.3g} us a step, {}, at most {:.0f} % off",
                     name_of(kind), fit.measurements, fit.step.latency_seconds * 1e6, rate,
                     100 * fit.largest_deviation);
}

}  // namespace commfuse
