// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/number_format.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace commfuse::fake {
namespace {

template <class Number>
Number element(const void* array, std::size_t index) {
  Number number;
  std::memcpy(&number, static_cast<const std::byte*>(array) + index * sizeof number, sizeof number);
  return number;
}

template <class Number>
void set_element(void* array, std::size_t index, const Number& number) {
  std::memcpy(static_cast<std::byte*>(array) + index * sizeof number, &number, sizeof number);
}

}  // namespace

std::size_t bytes_of(NumberFormat format) { return format == NumberFormat::f32 ? 4 : 2; }

float load(NumberFormat format, const void* array, std::size_t index) {
  switch (format) {
    case NumberFormat::bf16:
      return __bfloat162float(element<__nv_bfloat16>(array, index));
    case NumberFormat::f16:
      return __half2float(element<__half>(array, index));
    default:
      return element<float>(array, index);
  }
}

void store(NumberFormat format, void* array, std::size_t index, float value) {
  switch (format) {
    case NumberFormat::bf16:
      return set_element(array, index, __float2bfloat16_rn(value));
    case NumberFormat::f16:
      return set_element(array, index, __float2half_rn(value));
    default:
      return set_element(array, index, value);
  }
}

float round_to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  constexpr std::uint32_t kDropped = 13;  // of 23 bits of mantissa
  auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t odd = (bits >> kDropped) & 1U;
  bits += (1U << (kDropped - 1)) - 1 + odd;
  return std::bit_cast<float>(bits & ~((1U << kDropped) - 1));
}

}  // namespace commfuse::fake
