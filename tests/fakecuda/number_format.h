// SPDX-License-Identifier: Apache-2.0
// Numbers as devices store them: read to fp32 exactly, written with one rounding to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>

namespace commfuse::fake {

enum class NumberFormat : std::uint8_t { f32, bf16, f16 };

[[nodiscard]] std::size_t bytes_of(NumberFormat format);

/// Element `index` of an array that is aligned to its elements.
[[nodiscard]] float load(NumberFormat format, const void* array, std::size_t index);
void store(NumberFormat format, void* array, std::size_t index, float value);

/// As the tensor cores read fp32 for tf32: 10 bits of mantissa, to nearest even.
[[nodiscard]] float round_to_tf32(float value);

}  // namespace commfuse::fake
