// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace commfuse {

/// How iterations get to the device: by host calls, each time, or by replays of a graph that was
/// captured from these calls once, with the values that they had then.
enum class Issue : std::uint8_t { calls, graph };

}  // namespace commfuse
