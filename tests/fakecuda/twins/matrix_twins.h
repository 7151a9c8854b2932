// SPDX-License-Identifier: Apache-2.0
// Twins of the kernels in harness/cuda/launches.cu.
#pragma once

#include "tests/fakecuda/twin.h"

namespace commfuse::fake {

/// T is the element or word of the kernel's first template parameter, by its bytes.
Work copy_words_16(const Launch& launch);
Work copy_words_4(const Launch& launch);
Work copy_words_2(const Launch& launch);

/// The views say which dtype they have; vectors of `Elements` must fit them.
template <int Elements>
Work sum_strips(const Launch& launch);
template <int Elements>
Work add_rows(const Launch& launch);
template <int Elements>
Work apply_activation(const Launch& launch);
template <int Elements>
Work round_elements(const Launch& launch);

Work sentinel(const Launch& launch);

}  // namespace commfuse::fake
