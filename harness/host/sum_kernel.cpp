// SPDX-License-Identifier: Apache-2.0
#include "harness/host/sum_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "harness/host/bf16.h"
#include "harness/host/kernels.h"
#include "harness/host/runs.h"
#include "harness/host/simd.h"

namespace commfuse {
namespace {

// Sums pass through a piece of stack that stays in the first-level cache, so memory sees every term
// once and the target once.
constexpr std::int64_t kChunk = 2048;

COMMFUSE_SIMD void add(float* __restrict sum, const float* __restrict term, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) sum[i] += term[i];
}

COMMFUSE_SIMD void add(float* __restrict sum, const Bf16* __restrict term, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    sum[i] += std::bit_cast<float>(static_cast<std::uint32_t>(term[i]) << 16U);
  }
}

void sum_chunk(DType dtype, std::byte* target, std::span<const std::byte* const> terms,
               std::int64_t first, std::int64_t elements) {
  alignas(64) std::array<float, kChunk> sum;
  const std::int64_t at = first * bytes_of(dtype);
  const auto bytes = static_cast<std::size_t>(elements * bytes_of(dtype));
  if (dtype == DType::f32) {
    std::memcpy(sum.data(), terms[0] + at, bytes);
    for (const std::byte* term : terms.subspan(1)) {
      add(sum.data(), reinterpret_cast<const float*>(term + at), elements);
    }
    std::memcpy(target + at, sum.data(), bytes);
  } else {
    expand_bf16(reinterpret_cast<const Bf16*>(terms[0] + at), sum.data(), elements);
    for (const std::byte* term : terms.subspan(1)) {
      add(sum.data(), reinterpret_cast<const Bf16*>(term + at), elements);
    }
    round_to_bf16(sum.data(), reinterpret_cast<Bf16*>(target + at), elements);
  }
}

}  // namespace

void reduce_blocks(DType dtype, std::byte* target, std::span<const std::byte* const> terms,
                   std::int64_t elements) {
  for (std::int64_t first = 0; first < elements; first += kChunk) {
    sum_chunk(dtype, target, terms, first, std::min(kChunk, elements - first));
  }
}

void check_shapes(const Accumulate& op, const Storage& storage) {
  const Tensor& d = storage.tensor(op.d.tensor);
  const Tensor& a = storage.tensor(op.a.tensor);
  const Tensor& terms = storage.tensor(op.terms.tensor);
  const bool same_shape = op.a.total_rows() == op.d.total_rows() && op.a.cols == op.d.cols &&
                          op.terms.rows == op.d.total_rows() && op.terms.cols == op.d.cols;
  if (!same_shape || a.dtype != d.dtype || terms.dtype != d.dtype) {
    throw std::invalid_argument(fmt::format(
        "cannot accumulate {} {} = {} {} + strips of {} {}", name_of(d.dtype), describe(op.d, d),
        name_of(a.dtype), describe(op.a, a), name_of(terms.dtype), describe(op.terms, terms)));
  }
}

void run(const Accumulate& op, const Storage& storage, std::vector<const std::byte*>& terms) {
  const Tensor& d = storage.tensor(op.d.tensor);
  const Tensor& a = storage.tensor(op.a.tensor);
  const Tensor& t = storage.tensor(op.terms.tensor);
  const std::int64_t size = bytes_of(d.dtype);
  const bool unbroken = Runs(op.d, d).count() == 1 && Runs(op.a, a).count() == 1 &&
                        Runs(op.terms.strip(0), t).count() == 1;
  const std::int64_t run_rows = unbroken ? op.d.total_rows() : 1;
  for (std::int64_t row = 0; row < op.d.total_rows(); row += run_rows) {
    terms.clear();
    terms.push_back(storage.data(op.a.tensor) + packed_row_offset(op.a, a, row) * size);
    for (std::int64_t strip = 0; strip < op.terms.strips; ++strip) {
      const std::int64_t packed = strip * op.terms.rows + row;
      terms.push_back(storage.data(op.terms.tensor) +
                      packed_row_offset(op.terms, t, packed) * size);
    }
    reduce_blocks(d.dtype, storage.data(op.d.tensor) + packed_row_offset(op.d, d, row) * size,
                  terms, run_rows * op.d.cols);
  }
}

}  // namespace commfuse
