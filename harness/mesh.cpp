// SPDX-License-Identifier: Apache-2.0
#include "harness/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "harness/option_values.h"
#include "suite/error.h"
#include "suite/shape.h"

namespace commfuse {

std::int32_t Mesh::ranks() const {
  std::int32_t product = 1;
  for (const Axis& axis : axes) product *= axis.ranks;
  return product;
}

std::int32_t Mesh::group_of(std::int32_t rank) const {
  std::int32_t group = 0;
  std::int32_t scale = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int32_t coordinate = rank % axes[i].ranks;
    rank /= axes[i].ranks;
    if (i == on) continue;
    group += coordinate * scale;
    scale *= axes[i].ranks;
  }
  return group;
}

std::string Mesh::text() const {
  std::vector<std::string> parts;
  for (const Axis& axis : axes) parts.push_back(fmt::format("{}={}", axis.name, axis.ranks));
  return fmt::format("{} on {}", fmt::join(parts, ","), axes[on].name);
}

Mesh parse_mesh(std::string_view axes, std::string_view on) {
  Mesh mesh;
  std::int64_t ranks = 1;
  for (const std::string& item : split(axes, ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(fmt::format("--mesh takes name=ranks,..., got '{}'", item));
    }
    Mesh::Axis axis{item.substr(0, equals), parse_count(item.substr(equals + 1), "--mesh")};
    const auto same = [&](const Mesh::Axis& other) { return other.name == axis.name; };
    if (std::ranges::any_of(mesh.axes, same)) {
      throw UsageError(fmt::format("--mesh names '{}' twice", axis.name));
    }
    ranks *= axis.ranks;
    if (ranks > 1 << 20) throw UsageError(fmt::format("--mesh {} has too many ranks", axes));
    mesh.axes.push_back(std::move(axis));
  }
  for (mesh.on = 0; mesh.on < mesh.axes.size(); ++mesh.on) {
    if (mesh.axes[mesh.on].name == on) return mesh;
  }
  std::vector<std::string> names;
  for (const Mesh::Axis& axis : mesh.axes) names.push_back(axis.name);
  throw UsageError(
      fmt::format("--on names one axis of the mesh ({}), got '{}'", fmt::join(names, ", "), on));
}

Mesh single_group(std::int32_t ranks) { return Mesh{{{"ranks", ranks}}, 0}; }

}  // namespace commfuse
