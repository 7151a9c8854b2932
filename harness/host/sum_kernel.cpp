// SPDX-License-Identifier: Apache-2.0
#include "harness/host/sum_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "harness/host/float_conversion.h"
#include "harness/host/kernels.h"
#include "harness/host/runs.h"

namespace commfuse {
namespace {

// Sums pass through a piece of stack that stays in the first-level cache, so memory sees every term
// once and the target once.
constexpr std::int64_t kSumChunk = 2048;

void sum_chunk(DType dtype, std::byte* target, std::span<const std::byte* const> terms,
               std::int64_t first, std::int64_t elements) {
  alignas(64) std::array<float, kSumChunk> sum;
  const std::int64_t at = first * bytes_of(dtype);
  load_floats(dtype, terms[0] + at, sum.data(), elements);
  for (const std::byte* term : terms.subspan(1)) {
    add_floats(dtype, term + at, sum.data(), elements);
  }
  store_floats(dtype, sum.data(), target + at, elements);
}

}  // namespace

void reduce_blocks(DType dtype, std::byte* target, std::span<const std::byte* const> terms,
                   std::int64_t elements) {
  for (std::int64_t first = 0; first < elements; first += kSumChunk) {
    sum_chunk(dtype, target, terms, first, std::min(kSumChunk, elements - first));
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

void check_shapes(const Residual& op, const Storage& storage) {
  const Tensor& y = storage.tensor(op.y.tensor);
  for (const View& view : {op.x, op.r}) {
    const Tensor& tensor = storage.tensor(view.tensor);
    const bool same_shape = view.total_rows() == op.y.total_rows() && view.cols == op.y.cols;
    if (same_shape && tensor.dtype == y.dtype) continue;
    throw std::invalid_argument(fmt::format("cannot add {} {} to give {} {}", name_of(tensor.dtype),
                                            describe(view, tensor), name_of(y.dtype),
                                            describe(op.y, y)));
  }
}

void run(const Residual& op, const Storage& storage) {
  const Tensor& y = storage.tensor(op.y.tensor);
  const auto row_at = [&](const View& view, std::int64_t row) {
    const std::int64_t offset = packed_row_offset(view, storage.tensor(view.tensor), row);
    return storage.data(view.tensor) + offset * bytes_of(y.dtype);
  };
  const auto unbroken = [&](const View& view) {
    return Runs(view, storage.tensor(view.tensor)).count() == 1;
  };
  const bool at_once = unbroken(op.y) && unbroken(op.x) && unbroken(op.r);
  const std::int64_t run_rows = at_once ? op.y.total_rows() : 1;
  for (std::int64_t row = 0; row < op.y.total_rows(); row += run_rows) {
    const std::array<const std::byte*, 2> terms{row_at(op.x, row), row_at(op.r, row)};
    reduce_blocks(y.dtype, row_at(op.y, row), terms, run_rows * op.y.cols);
  }
}

}  // namespace commfuse
