// SPDX-License-Identifier: Apache-2.0
// Copies as compute ops, which may change the dtype.
#pragma once

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Throws std::invalid_argument unless both views have the same number of elements, or the same
/// packed shape where their dtypes differ.
void check_shapes(const Copy& op, const Storage& storage);
/// Bytes, or values rounded to the dtype of D.
void run(const Copy& op, const Storage& storage);

}  // namespace commfuse
