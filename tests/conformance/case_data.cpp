// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/case_data.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace commfuse {
namespace {

std::vector<double> packed_values(const Fill& fill, const Source& source) {
  std::vector<double> packed;
  std::vector<float> row(static_cast<std::size_t>(fill.view.cols));
  for (std::int32_t r = 0; r < fill.view.rows; ++r) {
    fill_row(fill, source, r, row);
    packed.insert(packed.end(), row.begin(), row.end());
  }
  return packed;
}

bool agrees(double got, double expected, double bound, DType dtype) {
  if (bound == 0) {
    return std::bit_cast<std::uint64_t>(got) ==
           std::bit_cast<std::uint64_t>(rounded(expected, dtype));
  }
  return std::abs(got - expected) <= bound;  // false for NaN
}

}  // namespace

CaseData::CaseData(const Workload& workload, Portion portion, const Source& source) {
  const Oracle oracle(workload, source);
  exact_ = oracle.exact(portion);
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    for (const Fill& fill : initial_data(workload, rank, portion)) {
      inputs_.push_back({rank, fill.view, packed_values(fill, source)});
    }
    for (const View& view : required_outputs(workload, portion)) {
      std::vector<std::int32_t> rows;
      for (std::int64_t r = 0; r < view.total_rows(); ++r) {
        rows.push_back(ReferenceMemory::place(view, r * view.cols).row);
      }
      outputs_.push_back({rank, view, oracle.rows(portion, rank, view, rows)});
    }
  }
}

void CaseData::load(ReferenceMemory& memory) const {
  memory.poison();
  for (const Input& input : inputs_) memory.write(input.rank, input.view, input.packed);
}

std::optional<std::string> CaseData::first_mismatch(const ReferenceMemory& memory,
                                                    const ReferenceExecutor& executor) const {
  for (const Output& output : outputs_) {
    for (std::size_t row = 0; row < output.rows.size(); ++row) {
      if (auto mismatch = mismatch_in_row(output, row, memory, executor)) return mismatch;
    }
  }
  return std::nullopt;
}

std::optional<std::string> CaseData::mismatch_in_row(const Output& output, std::size_t row,
                                                     const ReferenceMemory& memory,
                                                     const ReferenceExecutor& executor) const {
  const Tensor& tensor = memory.tensor(output.rank, output.view.tensor);
  const std::span<const double> got =
      memory.row(output.rank, output.view, static_cast<std::int64_t>(row));
  const ExpectedRow& expected = output.rows[row];
  for (std::size_t c = 0; c < got.size(); ++c) {
    if (agrees(got[c], expected.value[c], expected.bound[c], tensor.dtype)) continue;
    const ReferenceMemory::Place place =
        ReferenceMemory::place(output.view, static_cast<std::int64_t>(row * got.size() + c));
    return fmt::format("rank {}, {}: element [{}, {}] is {}, expected {} (bound {}), {}",
                       output.rank, describe(output.view, tensor), place.row, place.col, got[c],
                       expected.value[c], expected.bound[c],
                       executor.last_writer(output.rank, output.view.tensor, place.row, place.col));
  }
  return std::nullopt;
}

}  // namespace commfuse
