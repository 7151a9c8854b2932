// SPDX-License-Identifier: Apache-2.0
// Gradients of activations on host storage, as loops that vectorise: accurate to a few units in the
// last place of fp32 of the slope's largest value. NaN stays NaN, in dY and in X.
#pragma once

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// Throws std::invalid_argument where the shapes do not go together.
void check_shapes(const ActivationGradient& op, const Storage& storage);
/// dx may be x, or dy where the shapes are equal.
void run(const ActivationGradient& op, const Storage& storage);

}  // namespace commfuse
