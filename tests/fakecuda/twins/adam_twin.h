// SPDX-License-Identifier: Apache-2.0
// Twin of the kernel in harness/cuda/adam.cu.
#pragma once

#include "tests/fakecuda/twin.h"

namespace commfuse::fake {

/// The views say which dtype they have; vectors of `Elements` must fit them.
template <int Elements>
Work adam_rows(const Launch& launch);

}  // namespace commfuse::fake
