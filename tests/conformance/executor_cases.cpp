// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/executor_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "impls/implementation.h"
#include "impls/transform.h"
#include "suite/oracle.h"
#include "suite/rounding.h"

namespace commfuse {
namespace {

constexpr Source source(std::uint64_t turn) { return {.seed = 7 + turn, .mode = DataMode::exact}; }

void load(Executor& executor, PlanHandle plan, const Workload& workload, std::int32_t rank,
          Portion portion, const Source& values) {
  for (const Fill& fill : initial_data(workload, rank, portion)) {
    std::vector<float> row(static_cast<std::size_t>(fill.view.cols));
    for (std::int32_t r = 0; r < fill.view.rows; ++r) {
      fill_row(fill, values, r, row);
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
  const double rounding = is_narrow(dtype) ? std::abs(expected) * unit_roundoff(dtype) : 0;
  return std::abs(got - expected) <= bound + rounding;  // false for NaN
}

class Comparison {
 public:
  Comparison(const Workload& workload, std::int32_t rank, const Source& values)
      : workload_(workload), rank_(rank), oracle_(workload, values) {}

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
      const bool begins = span.begin_ns > 0 || timeline.start_ns == 0;  // simulated time is from 0
      const bool ends = span.end_ns > 0 && span.begin_ns <= span.end_ns;
      if (begins && ends && span.end_ns <= timeline.end_ns) continue;
      return fmt::format("op {} message {}: span from {} to {} in a window from {} to {}", span.op,
                         span.message, span.begin_ns, span.end_ns, timeline.start_ns,
                         timeline.end_ns);
    }
  }
  return {};
}

/// One plan on one executor.
class PlanRun {
 public:
  PlanRun(World& world, Executor& executor, const Workload& workload,
          const Implementation& implementation, Stamped stamped)
      : world_(world),
        executor_(executor),
        workload_(workload),
        implementation_(implementation),
        stamped_(stamped),
        plan_(build_plan(implementation, workload, world.rank())),
        handle_(executor.prepare(plan_)) {}

  /// From fresh storage, with the inputs of `comparison`, which belongs to that turn.
  std::string run(Mode mode, std::size_t iterations, std::uint64_t turn,
                  const Comparison& comparison) {
    executor_.poison(handle_);
    load(executor_, handle_, workload_, world_.rank(), implementation_.portion, source(turn));
    executor_.weights_written();
    std::vector<Timeline> timelines(iterations);
    executor_.run(handle_, mode, timelines);
    std::string mismatch = comparison.first_mismatch(executor_, handle_, implementation_.portion);
    if (mismatch.empty()) mismatch = untimed_span(timelines, stamped_);
    if (mismatch.empty()) return {};
    return fmt::format("{}, {} {} iteration(s), turn {}: {}", implementation_.name, iterations,
                       mode == Mode::steady ? "steady" : "isolated", turn, mismatch);
  }

  std::string run_quietly(Mode mode, std::size_t iterations) {
    if (implementation_.portion != Portion::schedule) return {};
    const PlanHandle quiet = executor_.prepare_quiet(without_communication(plan_), handle_);
    std::vector<Timeline> timelines(iterations);
    executor_.run(quiet, mode, timelines);
    for (const Span& span : timelines.back().spans) {
      if (span.kind != SpanKind::transfer && span.kind != SpanKind::collective) continue;
      return fmt::format("{}: a quiet plan communicates", implementation_.name);
    }
    return untimed_span(timelines, stamped_);
  }

 private:
  World& world_;
  Executor& executor_;
  const Workload& workload_;
  const Implementation& implementation_;
  Stamped stamped_;
  Plan plan_;
  PlanHandle handle_;
};

std::string first_of(std::initializer_list<std::string> mismatches) {
  for (const std::string& mismatch : mismatches) {
    if (!mismatch.empty()) return mismatch;
  }
  return {};
}

}  // namespace

Workload workload_of(const ShapeCase& shape, std::int32_t ranks, DType dtype) {
  return find_workloads(shape.workload).front()->build(shape_of(shape, ranks, dtype), ranks);
}

void load_inputs(Executor& executor, PlanHandle plan, const Workload& workload, std::int32_t rank,
                 Portion portion) {
  executor.poison(plan);
  load(executor, plan, workload, rank, portion, source(0));
  executor.weights_written();
}

std::string first_mismatch(Executor& executor, PlanHandle plan, const Workload& workload,
                           std::int32_t rank, Portion portion) {
  return Comparison(workload, rank, source(0)).first_mismatch(executor, plan, portion);
}

std::string run_implementations(World& world, const ShapeCase& shape, DType dtype,
                                std::span<const std::string> specs,
                                const MakeExecutor& make_executor,
                                const ExecutorExpectations& expectations, int& compared) {
  const Workload workload = workload_of(shape, world.ranks(), dtype);
  const std::unique_ptr<Executor> executor = make_executor(world, workload);
  const bool replays = expectations.iterations == Iterations::one_by_one;
  std::deque<Comparison> turns;
  for (std::uint64_t turn = 0; turn < (replays ? 3 : 1); ++turn) {
    turns.emplace_back(workload, world.rank(), source(turn));
  }
  std::string first;
  for (const std::string& spec : specs) {
    const Implementation implementation = make_implementation(spec, workload);
    PlanRun plan(world, *executor, workload, implementation, expectations.stamped);
    for (std::uint64_t turn = 0; turn < turns.size(); ++turn) {
      first = first_of({first, plan.run(Mode::isolated, 1, turn, turns[turn])});
      ++compared;
    }
    if (!replays) {
      first = first_of({first, plan.run(Mode::steady, 3, 0, turns[0])});
      ++compared;
    }
    first = first_of(
        {first, replays ? plan.run_quietly(Mode::isolated, 1) : plan.run_quietly(Mode::steady, 2)});
  }
  return first;
}

std::string run_all_implementations(World& world, const ShapeCase& shape, DType dtype,
                                    const MakeExecutor& make_executor,
                                    const ExecutorExpectations& expectations, int& compared) {
  std::vector<std::string> specs;
  for (const ImplementationFamily& family : implementation_families()) {
    for (const ImplementationCase& member : family.members) {
      if (divides(member, shape, world.ranks())) specs.push_back(member.spec);
    }
  }
  return run_implementations(world, shape, dtype, specs, make_executor, expectations, compared);
}

}  // namespace commfuse
