// SPDX-License-Identifier: Apache-2.0
// Twins of the kernels in harness/cuda/softmax.cu and softmax_gradient.cu.
#pragma once

#include "tests/fakecuda/twin.h"

namespace commfuse::fake {

Work softmax_rows(const Launch& launch);
Work softmax_gradient_rows(const Launch& launch);

}  // namespace commfuse::fake
