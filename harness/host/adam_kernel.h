// SPDX-License-Identifier: Apache-2.0
// A step of Adam on host storage, as a loop that vectorises.
#pragma once

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Throws std::invalid_argument where shapes differ, or weights or moments are not fp32.
void check_shapes(const Adam& op, const Storage& storage);
/// What is written may be what it replaces.
void run(const Adam& op, const Storage& storage);

}  // namespace commfuse
