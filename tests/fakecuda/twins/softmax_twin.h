// SPDX-License-Identifier: Apache-2.0
// Twin of the kernel in harness/cuda/softmax.cu.
#pragma once

#include "tests/fakecuda/twin.h"

namespace commfuse::fake {

Work softmax_rows(const Launch& launch);

}  // namespace commfuse::fake
