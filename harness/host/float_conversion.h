// SPDX-License-Identifier: Apache-2.0
// Elements of every dtype from and to fp32, in which everything is computed.
//
// Plain arithmetic without branches, so that one loop serves every CPU and is vectorised for each.
// (_Float16 is a call of a library function per element where the compiler may not use F16C.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "suite/tensor.h"

namespace commfuse {

/// out[i] = in[i] rounded to nearest even: fp16 infinite from 65520 on, subnormal below 2^-14. NaN
/// stays NaN. The arrays do not overlap.
void store_floats(DType dtype, const float* in, std::byte* out, std::int64_t elements);
/// out[i] = in[i], exactly. The arrays do not overlap.
void load_floats(DType dtype, const std::byte* in, float* out, std::int64_t elements);
/// sum[i] += in[i]. The arrays do not overlap.
void add_floats(DType dtype, const std::byte* in, float* sum, std::int64_t elements);

}  // namespace commfuse
