// SPDX-License-Identifier: Apache-2.0
// The text of harness/sim/machines/*.toml, compiled in.
#pragma once

#include <span>
#include <string_view>

namespace commfuse {

struct EmbeddedMachine {
  std::string_view name;
  std::string_view text;
};
std::span<const EmbeddedMachine> embedded_machines();

}  // namespace commfuse
