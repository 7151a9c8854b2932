// SPDX-License-Identifier: Apache-2.0
// Plans of real workloads run by a host executor and compared with the oracle, on whatever world
// and transport a test has.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "harness/host/host_executor.h"
#include "harness/world/world.h"
#include "tests/conformance/conformance_cases.h"

namespace commfuse {

using MakeTransport = std::function<std::unique_ptr<Transport>(World& group)>;

/// Runs the shape under every implementation that can cut it: one isolated iteration, then three
/// back to back, then its plan without communication, each from poisoned storage but the last,
/// which goes on with what the iterations before left. Collective; returns the first mismatch on
/// this rank, empty if there is none, and adds the number of comparisons to `compared`.
std::string run_all_implementations(World& world, const ShapeCase& shape, DType dtype,
                                    const MakeTransport& make_transport, const LinkSpeed& link,
                                    int& compared);

}  // namespace commfuse
