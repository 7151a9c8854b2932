// SPDX-License-Identifier: Apache-2.0
#include "harness/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "harness/host/float_conversion.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

constexpr std::int64_t kWholeFlops = 100'000'000;  // about a second of the oracle
constexpr std::int32_t kSampledRows = 8;
constexpr std::int64_t kBlockElements =
    1 << 18;  // rows are written and read in blocks of about a MiB

/// Calls visit(view of some whole rows, buffer of its size) over the rows of a rectangle.
template <class Visit>
void for_blocks(const View& view, Visit visit) {
  const auto block =
      static_cast<std::int32_t>(std::max<std::int64_t>(1, kBlockElements / std::max(1, view.cols)));
  std::vector<float> buffer;
  for (std::int32_t row = 0; row < view.rows; row += block) {
    View piece = view;
    piece.row = view.row + row;
    piece.rows = std::min(block, view.rows - row);
    buffer.resize(static_cast<std::size_t>(piece.elements()));
    visit(piece, row, std::span(buffer));
  }
}

void load(Executor& executor, PlanHandle plan, const Fill& fill, const Source& source) {
  for_blocks(fill.view, [&](const View& piece, std::int32_t first, std::span<float> values) {
    for (std::int32_t row = 0; row < piece.rows; ++row) {
      fill_row(fill, source, first + row,
               values.subspan(std::size_t(row) * piece.cols, std::size_t(piece.cols)));
    }
    executor.write(plan, piece, values);
  });
}

bool is_weight(const Workload& workload, const Fill& fill) {
  return std::ranges::find(workload.weights, fill.view.tensor) != workload.weights.end();
}

float round_to(double value, DType dtype) {
  auto rounded = static_cast<float>(value);
  alignas(float) std::array<std::byte, sizeof rounded> stored{};
  store_floats(dtype, &rounded, stored.data(), 1);
  load_floats(dtype, stored.data(), &rounded, 1);
  return rounded;
}

}  // namespace

void load_weights(Executor& executor, PlanHandle plan, const Workload& workload, const World& group,
                  const Source& source) {
  for (const Fill& fill : workload.inputs(group.rank())) {
    if (is_weight(workload, fill)) load(executor, plan, fill, source);
  }
  executor.weights_written();
}

void load_inputs(Executor& executor, PlanHandle plan, const Workload& workload, Portion portion,
                 const World& group, const Source& source) {
  for (const Fill& fill : initial_data(workload, group.rank(), portion)) {
    if (!is_weight(workload, fill)) load(executor, plan, fill, source);
  }
}

/// What one rank found; sent to its group as JSON.
struct Checker::Tally {
  CheckReport report;

  void compare(double got, double want, double bound, bool equal, const auto& where) {
    ++report.compared;
    report.bitwise = report.bitwise && equal;
    const double error = std::abs(got - want);
    if (std::isfinite(error)) {
      report.max_abs = std::max(report.max_abs, error);
      if (want != 0) report.max_rel = std::max(report.max_rel, error / std::abs(want));
    }
    if (equal || error <= bound) return;  // NaN compares false, so it is wrong
    if (report.wrong++ == 0)
      report.first_wrong = fmt::format("{}: got {}, want {}", where(), got, want);
  }

  void merge(const CheckReport& other) {
    report.compared += other.compared;
    report.wrong += other.wrong;
    if (report.first_wrong.empty()) report.first_wrong = other.first_wrong;
    report.max_abs = std::max(report.max_abs, other.max_abs);
    report.max_rel = std::max(report.max_rel, other.max_rel);
    report.bitwise = report.bitwise && other.bitwise;
  }
};

Checker::Checker(const Workload& workload, const Source& source, Watchdog& watchdog)
    : workload_(workload),
      source_(source),
      watchdog_(watchdog),
      oracle_(workload, source),
      whole_(workload.hardware_flops * workload.ranks <= kWholeFlops) {}

std::vector<std::int32_t> Checker::rows_to_compare(const View& output, std::int32_t rank) const {
  std::set<std::int32_t> rows;
  if (whole_ || output.rows <= kSampledRows) {
    for (std::int32_t row = 0; row < output.rows; ++row) rows.insert(output.row + row);
  } else {
    std::mt19937_64 random(source_.seed + static_cast<std::uint64_t>(rank));
    rows = {output.row, output.row + output.rows - 1};
    while (rows.size() < std::size_t{kSampledRows}) {
      rows.insert(output.row +
                  static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(output.rows)));
    }
  }
  return {rows.begin(), rows.end()};
}

const Checker::Expectation& Checker::expectation(Portion portion, const View& output,
                                                 std::int32_t rank) const {
  const auto [entry, added] = expectations_.try_emplace({portion, output.tensor});
  Expectation& expectation = entry->second;
  if (!added) return expectation;
  expectation.exact = oracle_.exact(portion, output);
  expectation.rows = rows_to_compare(output, rank);
  expectation.expected = oracle_.rows(portion, rank, output, expectation.rows);
  if (whole_) return expectation;
  const auto phase = watchdog_.guard("its projection");
  std::mt19937_64 random(source_.seed ^ 0x9e3779b97f4a7c15U);
  expectation.factors.resize(static_cast<std::size_t>(output.cols));
  for (double& factor : expectation.factors) factor = random() % 2 == 0 ? 1 : -1;
  expectation.projection = oracle_.projection(portion, rank, output, expectation.factors);
  return expectation;
}

void Checker::compare_rows(Executor& executor, PlanHandle plan, const View& output,
                           const Expectation& expectation, std::int32_t rank, Tally& tally) const {
  const Tensor& tensor = workload_.tensors[output.tensor];
  std::vector<float> got(static_cast<std::size_t>(output.cols));
  for (std::size_t i = 0; i < expectation.rows.size(); ++i) {
    const ExpectedRow& expected = expectation.expected[i];
    View row = output;
    row.row = expectation.rows[i];
    row.rows = 1;
    executor.read(plan, row, got);
    for (std::size_t c = 0; c < got.size(); ++c) {
      const bool equal = got[c] == round_to(expected.value[c], tensor.dtype);
      tally.compare(got[c], expected.value[c], expectation.exact ? 0 : expected.bound[c], equal,
                    [&] {
                      return fmt::format("rank {} {}[{}, {}]", rank, tensor.name, row.row,
                                         output.col + std::int32_t(c));
                    });
    }
  }
}

void Checker::compare_projection(Executor& executor, PlanHandle plan, const View& output,
                                 const Expectation& expectation, std::int32_t rank,
                                 Tally& tally) const {
  if (!expectation.projection) return;
  const ExpectedRow& expected = *expectation.projection;
  for_blocks(output, [&](const View& piece, std::int32_t first, std::span<float> values) {
    executor.read(plan, piece, values);
    for (std::int32_t row = 0; row < piece.rows; ++row) {
      double sum = 0;
      for (std::int32_t c = 0; c < piece.cols; ++c)
        sum += values[std::size_t(row) * piece.cols + c] * expectation.factors[std::size_t(c)];
      const auto i = static_cast<std::size_t>(first) + static_cast<std::size_t>(row);
      tally.compare(sum, expected.value[i], expectation.exact ? 0 : expected.bound[i],
                    sum == expected.value[i], [&] {
                      return fmt::format("rank {} {}[{}, :] (Freivalds)", rank,
                                         workload_.tensors[output.tensor].name,
                                         output.row + first + row);
                    });
    }
  });
}

CheckReport Checker::check(Executor& executor, PlanHandle plan, Portion portion, Mode mode,
                           World& group) const {
  executor.poison(plan);
  load_inputs(executor, plan, workload_, portion, group, source_);
  // Steady: what wraps around must be right as well.
  std::vector<Timeline> timelines(mode == Mode::steady ? 2 : 1);
  executor.run(plan, mode, timelines);

  Tally tally;
  tally.report.bitwise = true;
  for (const View& output : required_outputs(workload_, portion)) {
    const auto phase = watchdog_.guard("comparing " + workload_.tensors[output.tensor].name);
    const Expectation& expected = expectation(portion, output, group.rank());
    compare_rows(executor, plan, output, expected, group.rank(), tally);
    compare_projection(executor, plan, output, expected, group.rank(), tally);
  }
  const std::string text = to_json(tally.report).dump();
  Tally all;
  all.report.bitwise = true;
  for (const auto& bytes : group.gather(bytes_of(text), 0)) {
    all.merge(check_from_json(nlohmann::ordered_json::parse(text_of(bytes))));
  }
  const std::string verdict = text_of(group.broadcast(bytes_of(to_json(all.report).dump()), 0));
  CheckReport report = check_from_json(nlohmann::ordered_json::parse(verdict));
  // On random data elements may round either way: not bitwise, and not wrong.
  report.bound =
      oracle_.exact(portion) ? "exact" : "float64 within rounding of dtype and reduction length";
  return report;
}

}  // namespace commfuse
