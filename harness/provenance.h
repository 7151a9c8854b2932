// SPDX-License-Identifier: Apache-2.0
// When, and by which build.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace commfuse {

/// Version, commit, compiler and build type, as the environment of a record has them.
nlohmann::ordered_json build_facts();

/// UTC, ISO 8601, to the second.
std::string now_iso8601();

}  // namespace commfuse
