// SPDX-License-Identifier: Apache-2.0
// What records say, where they say it.
#pragma once

#include <optional>
#include <string_view>

#include "harness/record/record.h"

namespace commfuse {

/// object[group][name], or nullptr.
const nlohmann::ordered_json* value_at(const nlohmann::ordered_json& object, std::string_view group,
                                       std::string_view name);
/// The same as a number; empty where it is none.
std::optional<double> number_at(const nlohmann::ordered_json& object, std::string_view group,
                                std::string_view name);
std::optional<double> metric(const Record& record, std::string_view name);
/// Whether its time may be shown: it is ok and was checked. A simulated row has no data to check;
/// its plan was verified before it ran.
bool has_speed(const Record& record);

}  // namespace commfuse
