// SPDX-License-Identifier: Apache-2.0
// What a backend plugin exports: a shared library that is opened at run time, so that the
// program starts where neither driver nor toolkit is.
#pragma once

#include <cstdint>

#include "harness/backend.h"
#include "harness/backend_settings.h"

namespace commfuse {

/// To be raised with every change of what passes between program and plugin. Both are built
/// together, so this finds files left over from another build: the plugin exports the number that
/// it was built with, to be compared before anything is called.
constexpr std::uint32_t kPluginAbi = 5;
constexpr const char* kPluginAbiSymbol = "commfuse_plugin_abi";
constexpr const char* kPluginFactory = "commfuse_create_backend";

/// Collective over the world, which outlives the backend; one call per rank. The caller owns it.
/// Throws Unsupported where a driver or a device is missing.
using PluginFactory = Backend*(World& world, const BackendSettings& settings);

}  // namespace commfuse
