// SPDX-License-Identifier: Apache-2.0
// The backend that the options name, where it is a plugin.
#pragma once

#include <memory>
#include <string_view>

#include "harness/backend.h"
#include "harness/backend_settings.h"

namespace commfuse {

/// What a backend's libraries read from the environment; before the process has other threads.
void set_backend_environment(std::string_view backend);

/// Collective over the world. Opens the plugin that lies beside this program; it is never closed.
/// Throws Unsupported on every rank, with the reason of the first one that has one: the plugin was
/// not built, a library of it is missing, there is no driver or no device.
std::unique_ptr<Backend> load_cuda_backend(World& world, const BackendSettings& settings);

}  // namespace commfuse
