// SPDX-License-Identifier: Apache-2.0
// The text of suite/models/*.toml, compiled in.
#pragma once

#include <span>
#include <string_view>

namespace commfuse {

struct EmbeddedModel {
  std::string_view name;
  std::string_view text;
};
std::span<const EmbeddedModel> embedded_models();

}  // namespace commfuse
