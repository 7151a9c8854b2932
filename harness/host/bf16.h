// SPDX-License-Identifier: Apache-2.0
// bf16 as the upper half of a float.
#pragma once

#include <cstdint>

namespace commfuse {

using Bf16 = std::uint16_t;

/// out[i] = in[i] rounded to nearest even; NaN stays NaN. The arrays do not overlap.
void round_to_bf16(const float* in, Bf16* out, std::int64_t elements);
/// out[i] = in[i], exactly. The arrays do not overlap.
void expand_bf16(const Bf16* in, float* out, std::int64_t elements);

}  // namespace commfuse
