// SPDX-License-Identifier: Apache-2.0
// What every kind of world must do: written once, run on worlds of threads and of MPI processes.
#pragma once

#include <ostream>
#include <span>
#include <string_view>

#include "harness/world/world.h"

namespace commfuse {

/// A check that all ranks of a world run together; failures are GoogleTest expectations, which do
/// not leave the case, so that a failing rank stays in step with the others.
struct WorldCase {
  std::string_view name;
  void (*run)(World& world);

  friend std::ostream& operator<<(std::ostream& out, const WorldCase& c) { return out << c.name; }
};

[[nodiscard]] std::span<const WorldCase> world_cases();

}  // namespace commfuse
