// SPDX-License-Identifier: Apache-2.0
// RMSNorm and its gradients on host storage: a row at a time, twice over its columns, of which the
// second time finds the row in the cache. NaN in a row reaches all of it.
#pragma once

#include <cstdint>

#include "harness/host/storage.h"
#include "suite/compute.h"

namespace commfuse {

/// They throw std::invalid_argument where the shapes do not go together.
void check_shapes(const Norm& op, const Storage& storage);
void check_shapes(const NormGradient& op, const Storage& storage);
void check_shapes(const GammaGradient& op, const Storage& storage);

/// Floats of workspace: gamma in fp32 where it is narrow; the sums of a gradient of gamma.
std::int64_t workspace_floats(const Norm& op, const Storage& storage);
std::int64_t workspace_floats(const NormGradient& op, const Storage& storage);
std::int64_t workspace_floats(const GammaGradient& op, const Storage& storage);

/// y may be x.
void run(const Norm& op, const Storage& storage, float* workspace);
/// dx may be x or dy.
void run(const NormGradient& op, const Storage& storage, float* workspace);
void run(const GammaGradient& op, const Storage& storage, float* workspace);

}  // namespace commfuse
