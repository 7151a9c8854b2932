// SPDX-License-Identifier: Apache-2.0
// Twins of the kernels in harness/cuda/norms.cu. The views say which dtype they have; vectors of
// `Elements` must fit them.
#pragma once

#include "tests/fakecuda/twin.h"

namespace commfuse::fake {

template <int Elements>
Work apply_activation_gradient(const Launch& launch);
template <int Elements>
Work norm_rows(const Launch& launch);
template <int Elements>
Work norm_gradient_rows(const Launch& launch);
template <int Elements>
Work inverse_rms_rows(const Launch& launch);
template <int Elements>
Work gamma_sums(const Launch& launch);
template <int Elements>
Work gamma_total(const Launch& launch);

}  // namespace commfuse::fake
