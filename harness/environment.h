// SPDX-License-Identifier: Apache-2.0
// Facts about machine, libraries and build that a comparison must know. An allow-list of variables,
// never all of them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/world/world.h"

namespace commfuse {

/// Collective. Complete on rank 0, empty elsewhere. `libraries` come from the backend.
nlohmann::ordered_json describe_environment(World& world,
                                            const std::map<std::string, std::string>& libraries);

}  // namespace commfuse
