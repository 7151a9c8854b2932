// SPDX-License-Identifier: Apache-2.0
// Accumulate and Residual on host storage. reduce_blocks(), what both are made of, is declared in
// kernels.h.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Throws std::invalid_argument where shapes or dtypes of the views differ.
void check_shapes(const Accumulate& op, const Storage& storage);
void check_shapes(const Residual& op, const Storage& storage);
/// `terms` is working space; it allocates nothing where its capacity is at least op.terms.strips
/// + 1.
void run(const Accumulate& op, const Storage& storage, std::vector<const std::byte*>& terms);
void run(const Residual& op, const Storage& storage);

}  // namespace commfuse
