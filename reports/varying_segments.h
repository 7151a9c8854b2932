// SPDX-License-Identifier: Apache-2.0
// Ids are long, and those of one report agree in most of their segments.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace commfuse {

class VaryingSegments {
 public:
  /// Of the ids that a report has.
  explicit VaryingSegments(std::span<const std::string> ids);

  /// The segments of an id that not all ids have, and its implementation, joined by "/".
  [[nodiscard]] std::string brief(std::string_view id) const;
  /// The others, joined by "/".
  [[nodiscard]] const std::string& constant() const { return constant_; }

 private:
  std::set<std::string, std::less<>> shared_;
  std::string constant_;
};

}  // namespace commfuse
