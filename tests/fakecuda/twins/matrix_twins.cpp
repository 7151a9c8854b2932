// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/twins/matrix_twins.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "suite/compute.h"
#include "tests/fakecuda/twins/elements.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

/// `bytes` is a word's.
Work copy_words(const Launch& launch, std::int64_t bytes) {
  const auto target = argument<DeviceView>(launch, 0);
  const auto source = argument<DeviceView>(launch, 1);
  const auto run = argument<std::int32_t>(launch, 2);
  require_rows_covered("copy_words", launch, target.elements() / run);
  Work work{.name = "copy_words", .reads = {}, .writes = {}, .run = {}};
  append(work.reads, source, bytes);
  append(work.writes, target, bytes);
  for (const auto* ranges : {&work.reads, &work.writes}) {
    for (const Range& range : *ranges) {
      if (reinterpret_cast<std::uintptr_t>(range.data) % static_cast<std::uintptr_t>(bytes) == 0) {
        continue;
      }
      throw Finding(Verdict::Kind::host_error,
                    fmt::format("copy_words: words of {} bytes are not aligned", bytes));
    }
  }
  work.duration_ns = duration_ns(work.reads, work.writes);
  work.run = [=] {
    const auto at = [=](const DeviceView& view, std::int64_t index) {
      const std::int64_t word = index * run;
      return static_cast<std::byte*>(view.data) +
             (row_offset(view, word / view.cols) + word % view.cols) * bytes;
    };
    for (std::int64_t i = 0; i < target.elements() / run; ++i) {
      std::memcpy(at(target, i), at(source, i), static_cast<std::size_t>(run * bytes));
    }
  };
  return work;
}

float activate(float x, Activation kind) {
  constexpr float kRootHalf = 0.70710678118654752F;
  if (kind == Activation::relu) return (x < 0.0F ? 0.0F : x) + 0.0F;
  if (kind == Activation::gelu) return x * 0.5F * std::erfc(-x * kRootHalf);
  return x / (1.0F + std::exp(-x));
}

void run_sum(const DeviceView& d, const DeviceView& a, const DeviceView& terms) {
  for (std::int64_t row = 0; row < d.total_rows(); ++row) {
    for (std::int64_t col = 0; col < d.cols; ++col) {
      float sum = load(a.data, row_offset(a, row) + col, a.dtype);
      for (std::int64_t strip = 0; strip < terms.strips; ++strip) {
        sum += load(terms.data, strip * terms.strip_step + row * terms.pitch + col, terms.dtype);
      }
      store(sum, d.data, row_offset(d, row) + col, d.dtype);
    }
  }
}

void run_add(const DeviceView& y, const DeviceView& x, const DeviceView& r) {
  for (std::int64_t row = 0; row < y.total_rows(); ++row) {
    for (std::int64_t col = 0; col < y.cols; ++col) {
      const float sum = load(x.data, row_offset(x, row) + col, x.dtype) +
                        load(r.data, row_offset(r, row) + col, r.dtype);
      store(sum, y.data, row_offset(y, row) + col, y.dtype);
    }
  }
}

void run_activation(const DeviceView& y, const DeviceView& x, Activation kind) {
  for (std::int64_t row = 0; row < y.total_rows(); ++row) {
    for (std::int64_t col = 0; col < y.cols; ++col) {
      const std::int64_t from = row_offset(x, row) + col;
      float value = activate(load(x.data, from, x.dtype), kind);
      if (kind == Activation::swiglu) value *= load(x.data, from + y.cols, x.dtype);
      store(value, y.data, row_offset(y, row) + col, y.dtype);
    }
  }
}

void run_rounding(const DeviceView& target, const DeviceView& source) {
  for (std::int64_t row = 0; row < target.total_rows(); ++row) {
    for (std::int64_t col = 0; col < target.cols; ++col) {
      store(load(source.data, row_offset(source, row) + col, source.dtype), target.data,
            row_offset(target, row) + col, target.dtype);
    }
  }
}

}  // namespace

Work copy_words_16(const Launch& launch) { return copy_words(launch, 16); }
Work copy_words_4(const Launch& launch) { return copy_words(launch, 4); }
Work copy_words_2(const Launch& launch) { return copy_words(launch, 2); }

template <int Elements>
Work sum_strips(const Launch& launch) {
  const auto d = argument<DeviceView>(launch, 0);
  const auto a = argument<DeviceView>(launch, 1);
  const auto terms = argument<DeviceView>(launch, 2);
  require_rows_covered("sum_strips", launch, d.total_rows());
  require_vectors("sum_strips", Elements, {d, a, terms});
  Work work = work_of("sum_strips", d, {a, terms});
  work.run = [=] { run_sum(d, a, terms); };
  return work;
}

template <int Elements>
Work add_rows(const Launch& launch) {
  const auto y = argument<DeviceView>(launch, 0);
  const auto x = argument<DeviceView>(launch, 1);
  const auto r = argument<DeviceView>(launch, 2);
  require_rows_covered("add_rows", launch, y.total_rows());
  require_vectors("add_rows", Elements, {y, x, r});
  Work work = work_of("add_rows", y, {x, r});
  work.run = [=] { run_add(y, x, r); };
  return work;
}

template <int Elements>
Work apply_activation(const Launch& launch) {
  const auto y = argument<DeviceView>(launch, 0);
  const auto x = argument<DeviceView>(launch, 1);
  const auto kind = argument<Activation>(launch, 2);
  require_rows_covered("apply_activation", launch, y.total_rows());
  require_vectors("apply_activation", Elements, {y, x});
  Work work = work_of("apply_activation", y, {x});
  work.run = [=] { run_activation(y, x, kind); };
  return work;
}

template <int Elements>
Work round_elements(const Launch& launch) {
  const auto target = argument<DeviceView>(launch, 0);
  const auto source = argument<DeviceView>(launch, 1);
  require_rows_covered("round_elements", launch, target.total_rows());
  require_vectors("round_elements", Elements, {target, source});
  Work work = work_of("round_elements", target, {source});
  work.run = [=] { run_rounding(target, source); };
  return work;
}

template Work sum_strips<1>(const Launch&);
template Work sum_strips<4>(const Launch&);
template Work sum_strips<8>(const Launch&);
template Work add_rows<1>(const Launch&);
template Work add_rows<4>(const Launch&);
template Work add_rows<8>(const Launch&);
template Work apply_activation<1>(const Launch&);
template Work apply_activation<4>(const Launch&);
template Work apply_activation<8>(const Launch&);
template Work round_elements<1>(const Launch&);
template Work round_elements<4>(const Launch&);

Work sentinel(const Launch& /*launch*/) {
  return {.name = "sentinel", .reads = {}, .writes = {}, .duration_ns = 1000, .run = [] {}};
}

}  // namespace commfuse::fake
