// SPDX-License-Identifier: Apache-2.0
#include "harness/host/bf16.h"

#include <bit>

#include "harness/host/simd.h"

namespace commfuse {

COMMFUSE_SIMD void round_to_bf16(const float* __restrict in, Bf16* __restrict out,
                                 std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    const std::uint32_t even = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    // Rounding could carry a NaN over into infinity: it is cut off and made quiet instead.
    const std::uint32_t quiet = (bits >> 16U) | 0x40U;
    out[i] = static_cast<Bf16>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : even);
  }
}

COMMFUSE_SIMD void expand_bf16(const Bf16* __restrict in, float* __restrict out,
                               std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[i]) << 16U);
  }
}

}  // namespace commfuse
