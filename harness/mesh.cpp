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

namespace {

std::vector<Mesh::Axis> parse_axes(std::string_view text) {
  std::vector<Mesh::Axis> axes;
  std::int64_t ranks = 1;
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(fmt::format("--mesh takes name=ranks,..., got '{}'", item));
    }
    Mesh::Axis axis{item.substr(0, equals), parse_count(item.substr(equals + 1), "--mesh")};
    if (std::ranges::find(axes, axis.name, &Mesh::Axis::name) != axes.end()) {
      throw UsageError(fmt::format("--mesh names '{}' twice", axis.name));
    }
    ranks *= axis.ranks;
    if (ranks > 1 << 20) throw UsageError(fmt::format("--mesh {} has too many ranks", text));
    axes.push_back(std::move(axis));
  }
  return axes;
}

}  // namespace

std::vector<Mesh> parse_meshes(std::string_view axes, std::string_view on) {
  const Mesh mesh{parse_axes(axes), 0};
  std::vector<std::string> names;
  for (const Mesh::Axis& axis : mesh.axes) names.push_back(axis.name);
  const bool both =
      on == "both" && names.size() == 2 && std::ranges::find(names, on) == names.end();
  std::vector<Mesh> meshes;
  for (const std::string& name : both ? names : split(on, ',')) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      throw UsageError(fmt::format("--on names axes of the mesh ({}), or both of two; got '{}'",
                                   fmt::join(names, ", "), name));
    }
    meshes.push_back(mesh);
    meshes.back().on = static_cast<std::size_t>(found - names.begin());
  }
  return meshes;
}

std::vector<std::int32_t> ranks_by_group(const Mesh& mesh) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 0; rank < mesh.ranks(); ++rank) ranks.push_back(rank);
  std::ranges::stable_sort(ranks, {}, [&](std::int32_t rank) { return mesh.group_of(rank); });
  return ranks;
}

Mesh single_group(std::int32_t ranks) { return Mesh{{{"ranks", ranks}}, 0}; }

}  // namespace commfuse
