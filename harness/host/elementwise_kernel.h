// SPDX-License-Identifier: Apache-2.0
// Activations on host storage, as loops that vectorise: accurate to a few units in the last place
// of fp32, whatever the dtype of the tensors. -0 and values that underflow become 0; NaN stays NaN.
#pragma once

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Throws std::invalid_argument unless x has y's shape, or twice its columns for swiglu.
void check_shapes(const Elementwise& op, const Storage& storage);
/// y may be x where the shapes are equal.
void run(const Elementwise& op, const Storage& storage);

}  // namespace commfuse
