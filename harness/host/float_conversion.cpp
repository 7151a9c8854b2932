// SPDX-License-Identifier: Apache-2.0
#include "harness/host/float_conversion.h"

#include <bit>
#include <cstring>

#include "harness/host/simd.h"

namespace commfuse {
namespace {

// How one element is stored, and both ways between that and fp32.

struct F32 {
  using Stored = float;
  COMMFUSE_INLINE static float expand(float stored) { return stored; }
};

/// The upper half of a float.
struct Bf16 {
  using Stored = std::uint16_t;

  COMMFUSE_INLINE static Stored round(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t even = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    // Rounding could carry a NaN over into infinity: it is cut off and made quiet instead.
    const std::uint32_t quiet = (bits >> 16U) | 0x40U;
    return static_cast<Stored>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : even);
  }
  COMMFUSE_INLINE static float expand(Stored stored) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16U);
  }
};

/// IEEE half: 10 bits of fraction where a float has 23, an exponent whose bias is smaller by 112.
struct F16 {
  using Stored = std::uint16_t;
  static constexpr std::uint32_t kDropped = 13;
  static constexpr std::uint32_t kBias = 112U << 23U;
  static constexpr std::uint32_t kInfinity = 0x7c00U;

  COMMFUSE_INLINE static Stored round(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t size = bits & 0x7fffffffU;
    // A fraction that is rounded up to 1 carries over into the exponent, and the largest one into
    // infinity.
    const std::uint32_t even = size - kBias + 0xfffU + ((size >> kDropped) & 1U);
    const std::uint32_t normal = even >> kDropped;
    std::uint32_t result = normal < kInfinity ? normal : kInfinity;
    // Floats from 0.5 to 1 are as far apart as subnormal halves: adding 0.5 rounds to their steps.
    const std::uint32_t stepped = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F);
    result = size < 0x38800000U ? stepped - 0x3f000000U : result;
    result = size > 0x7f800000U ? (size >> kDropped & 0x3ffU) | 0x7e00U : result;
    return static_cast<Stored>(result | (bits >> 16U & 0x8000U));
  }
  COMMFUSE_INLINE static float expand(Stored stored) {
    const std::uint32_t size = stored & 0x7fffU;
    const std::uint32_t normal = (size << kDropped) + kBias;
    // The exponent of infinity and NaN is the largest in both formats.
    std::uint32_t bits = size < kInfinity ? normal : normal + kBias;
    const float steps = static_cast<float>(static_cast<std::int32_t>(size)) * 0x1p-24F;
    bits = size < 0x400U ? std::bit_cast<std::uint32_t>(steps) : bits;
    return std::bit_cast<float>(bits | static_cast<std::uint32_t>(stored & 0x8000U) << 16U);
  }
};

template <class Format>
COMMFUSE_INLINE void store(const float* in, std::byte* out, std::int64_t elements) {
  auto* const stored = reinterpret_cast<typename Format::Stored*>(out);
  for (std::int64_t i = 0; i < elements; ++i) stored[i] = Format::round(in[i]);
}

template <class Format>
COMMFUSE_INLINE void load(const std::byte* in, float* out, std::int64_t elements) {
  const auto* const stored = reinterpret_cast<const typename Format::Stored*>(in);
  for (std::int64_t i = 0; i < elements; ++i) out[i] = Format::expand(stored[i]);
}

template <class Format>
COMMFUSE_INLINE void add(const std::byte* in, float* sum, std::int64_t elements) {
  const auto* const stored = reinterpret_cast<const typename Format::Stored*>(in);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) sum[i] += Format::expand(stored[i]);
}

}  // namespace

COMMFUSE_SIMD void store_floats(DType dtype, const float* in, std::byte* out,
                                std::int64_t elements) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(out, in, static_cast<std::size_t>(elements) * sizeof(float));
      return;
    case DType::bf16:
      return store<Bf16>(in, out, elements);
    case DType::f16:
      return store<F16>(in, out, elements);
  }
}

COMMFUSE_SIMD void load_floats(DType dtype, const std::byte* in, float* out,
                               std::int64_t elements) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(out, in, static_cast<std::size_t>(elements) * sizeof(float));
      return;
    case DType::bf16:
      return load<Bf16>(in, out, elements);
    case DType::f16:
      return load<F16>(in, out, elements);
  }
}

COMMFUSE_SIMD void add_floats(DType dtype, const std::byte* in, float* sum, std::int64_t elements) {
  switch (dtype) {
    case DType::f32:
      return add<F32>(in, sum, elements);
    case DType::bf16:
      return add<Bf16>(in, sum, elements);
    case DType::f16:
      return add<F16>(in, sum, elements);
  }
}

}  // namespace commfuse
