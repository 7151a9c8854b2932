// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/executor_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "impls/implementation.h"
#include "impls/transform.h"
#include "suite/oracle.h"

namespace commfuse {
namespace {

constexpr Source kSource{.seed = 7, .mode = DataMode::exact};

void load(Executor& executor, PlanHandle plan, const Workload& workload, std::int32_t rank,
          Portion portion) {
  for (const Fill& fill : initial_data(workload, rank, portion)) {
    std::vector<float> row(static_cast<std::size_t>(fill.view.cols));
    for (std::int32_t r = 0; r < fill.view.rows; ++r) {
      fill_row(fill, kSource, r, row);
      View target = fill.view;
      target.row += r;
      target.rows = 1;
      executor.write(plan, target, row);
    }
  }
}

/// Rows of a view in its tensor, in packed order.
std::vector<std::int32_t> rows_of_view(const View& view) {
  std::vector<std::int32_t> rows;
  for (std::int32_t s = 0; s < view.strips; ++s) {
    for (std::int32_t r = 0; r < view.rows; ++r) rows.push_back(view.row + s * view.row_step + r);
  }
  return rows;
}

bool agrees(float got, double expected, double bound, DType dtype) {
  if (bound == 0) return static_cast<double>(got) == expected;
  // The bound covers the result before it is rounded to the tensor's type.
  const double rounding = dtype == DType::bf16 ? std::abs(expected) / 256 : 0;
  return std::abs(got - expected) <= bound + rounding;  // false for NaN
}

class Comparison {
 public:
  Comparison(const Workload& workload, std::int32_t rank)
      : workload_(workload), rank_(rank), oracle_(workload, kSource) {}

  std::string first_mismatch(Executor& executor, PlanHandle plan, Portion portion) const {
    for (const View& output : required_outputs(workload_, portion)) {
      const auto expected = oracle_.rows(portion, rank_, output, rows_of_view(output));
      std::vector<float> got(static_cast<std::size_t>(output.elements()));
      executor.read(plan, output, got);
      const Tensor& tensor = workload_.tensors[output.tensor];
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::size_t row = i / static_cast<std::size_t>(output.cols);
        const std::size_t col = i % static_cast<std::size_t>(output.cols);
        const double value = expected[row].value[col];
        if (agrees(got[i], value, expected[row].bound[col], tensor.dtype)) continue;
        return fmt::format("rank {}, {}: packed element [{}, {}] is {}, expected {}", rank_,
                           describe(output, tensor), row, col, got[i], value);
      }
    }
    return {};
  }

 private:
  const Workload& workload_;
  std::int32_t rank_;
  Oracle oracle_;
};

/// Every span of an iteration that must have times lies in order.
std::string untimed_span(const std::vector<Timeline>& timelines, Stamped stamped) {
  for (const Timeline& timeline : timelines) {
    for (const Span& span : timeline.spans) {
      if (stamped == Stamped::compute_lane && span.lane != 0) continue;
      if (span.begin_ns > 0 && span.begin_ns <= span.end_ns && span.end_ns <= timeline.end_ns) {
        continue;
      }
      return fmt::format("op {} message {}: span from {} to {} in a window from {} to {}", span.op,
                         span.message, span.begin_ns, span.end_ns, timeline.start_ns,
                         timeline.end_ns);
    }
  }
  return {};
}

std::string run_one(World& world, Executor& executor, const Workload& workload,
                    const Implementation& implementation, const Comparison& comparison,
                    Stamped stamped, int& compared) {
  const Plan plan = build_plan(implementation, workload, world.rank());
  const PlanHandle handle = executor.prepare(plan);
  const auto run = [&](PlanHandle which, Mode mode, std::size_t iterations,
                       std::string_view what) -> std::string {
    std::vector<Timeline> timelines(iterations);
    executor.run(which, mode, timelines);
    ++compared;
    std::string mismatch = comparison.first_mismatch(executor, which, implementation.portion);
    if (mismatch.empty()) mismatch = untimed_span(timelines, stamped);
    return mismatch.empty() ? mismatch
                            : fmt::format("{}, {}: {}", implementation.name, what, mismatch);
  };
  const auto fresh = [&] {
    load_inputs(executor, handle, workload, world.rank(), implementation.portion);
  };

  fresh();
  std::string mismatch = run(handle, Mode::isolated, 1, "isolated");
  fresh();
  if (auto steady = run(handle, Mode::steady, 3, "steady"); mismatch.empty()) mismatch = steady;
  if (implementation.portion == Portion::schedule) {
    const PlanHandle quiet = executor.prepare_quiet(without_communication(plan), handle);
    std::vector<Timeline> timelines(2);
    executor.run(quiet, Mode::steady, timelines);
    for (const Span& span : timelines[1].spans) {
      if (span.kind != SpanKind::transfer && span.kind != SpanKind::collective) continue;
      return fmt::format("{}: a quiet plan communicates", implementation.name);
    }
  }
  return mismatch;
}

}  // namespace

Workload workload_of(const ShapeCase& shape, std::int32_t ranks, DType dtype) {
  return find_workloads(shape.workload).front()->build(shape_of(shape, ranks, dtype), ranks);
}

void load_inputs(Executor& executor, PlanHandle plan, const Workload& workload, std::int32_t rank,
                 Portion portion) {
  executor.poison(plan);
  load(executor, plan, workload, rank, portion);
  executor.weights_written();
}

std::string first_mismatch(Executor& executor, PlanHandle plan, const Workload& workload,
                           std::int32_t rank, Portion portion) {
  return Comparison(workload, rank).first_mismatch(executor, plan, portion);
}

std::string run_all_implementations(World& world, const ShapeCase& shape, DType dtype,
                                    const MakeExecutor& make_executor, Stamped stamped,
                                    int& compared) {
  const Workload workload = workload_of(shape, world.ranks(), dtype);
  const std::unique_ptr<Executor> executor = make_executor(world, workload);
  const Comparison comparison(workload, world.rank());
  std::string first;
  for (const ImplementationFamily& family : implementation_families()) {
    for (const ImplementationCase& member : family.members) {
      if (!divides(member, shape)) continue;
      const std::string mismatch =
          run_one(world, *executor, workload, make_implementation(member.spec, workload),
                  comparison, stamped, compared);
      if (first.empty()) first = mismatch;
    }
  }
  return first;
}

}  // namespace commfuse
