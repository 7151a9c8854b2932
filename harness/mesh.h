// SPDX-License-Identifier: Apache-2.0
// How ranks are arranged: axes from the fastest to the slowest, one of which communicates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace commfuse {

struct Mesh {
  struct Axis {
    std::string name;
    std::int32_t ranks = 1;
  };
  std::vector<Axis> axes;
  std::size_t on = 0;

  [[nodiscard]] std::int32_t ranks() const;  // of the whole mesh
  [[nodiscard]] std::int32_t group_ranks() const { return axes[on].ranks; }
  /// Ranks that differ only along the axis `on` share a group; groups are numbered from 0.
  [[nodiscard]] std::int32_t group_of(std::int32_t rank) const;
  [[nodiscard]] std::string text() const;  // "tp=2,dp=2 on tp"
};

/// All ranks of the mesh, group after group, in order within each.
std::vector<std::int32_t> ranks_by_group(const Mesh& mesh);

/// "tp=4,dp=2", and "tp", "tp,dp" or "both" of its two axes: a mesh for every axis named. Throws
/// UsageError.
std::vector<Mesh> parse_meshes(std::string_view axes, std::string_view on);
/// One group of so many ranks.
Mesh single_group(std::int32_t ranks);

}  // namespace commfuse
