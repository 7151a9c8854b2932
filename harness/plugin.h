// SPDX-License-Identifier: Apache-2.0
// The one function of a backend plugin: a shared library that is opened at run time, so that the
// program starts where neither driver nor toolkit is.
#pragma once

#include <cstdint>

#include "harness/backend.h"
#include "harness/backend_settings.h"

namespace commfuse {

/// To be raised with every change of what passes between program and plugin. Both are built
/// together, so this finds files left over from another build.
constexpr std::uint32_t kPluginAbi = 3;
constexpr const char* kPluginFactory = "commfuse_create_backend";

/// Collective over the world, which outlives the backend; one call per rank. Null where `abi` is
/// not the plugin's. Throws Unsupported where a driver or a device is missing.
using PluginFactory = Backend*(std::uint32_t abi, World& world, const BackendSettings& settings);

}  // namespace commfuse
