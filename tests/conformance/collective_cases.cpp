// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/collective_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "impls/verify.h"
#include "suite/rounding.h"

namespace commfuse {
namespace {

constexpr std::int32_t kRows = 3;  // of a rank's block
constexpr std::int32_t kColumns = 5;
constexpr TensorId kStep = 0;   // what is sent grows by this in every iteration
constexpr TensorId kMoved = 1;  // what is sent
constexpr TensorId kTotal = 2;  // the sum of what was received

/// What a rank's step holds, and what its first iteration must receive.
using Values = double (*)(std::int32_t rank, std::int32_t row, std::int32_t col);

/// Small integers: all sums of them on up to 8 ranks are exact in bf16.
double integers(std::int32_t rank, std::int32_t row, std::int32_t col) {
  return (rank * 7 + row * 3 + col * 5 + rank * col) % 6;
}

double fractions(std::int32_t rank, std::int32_t row, std::int32_t col) {
  return 1.0 / (1 + (rank * 31 + row * 7 + col * 3) % 97);
}

bool whole_is_sent(CollectiveKind kind) { return kind != CollectiveKind::all_gather; }
bool whole_is_received(CollectiveKind kind) { return kind != CollectiveKind::reduce_scatter; }

/// What the first iteration receives in one place.
double received_in(CollectiveKind kind, Values values, std::int32_t ranks, std::int32_t rank,
                   std::int32_t row, std::int32_t col) {
  const std::int32_t block = row / kRows;
  const std::int32_t in_block = row % kRows;
  if (kind == CollectiveKind::all_gather) return values(block, in_block, col);
  if (kind == CollectiveKind::all_to_all) return values(block, rank * kRows + in_block, col);
  const std::int32_t own = kind == CollectiveKind::reduce_scatter ? rank * kRows + row : row;
  double sum = 0;
  for (std::int32_t r = 0; r < ranks; ++r) sum += values(r, own, col);
  return sum;
}

class CollectiveRun {
 public:
  CollectiveRun(World& world, const CollectiveCase& what, const MakeExecutor& make_executor)
      : world_(world),
        what_(what),
        workload_(workload_of(what, world.ranks())),
        executor_(make_executor(world, workload_)) {
    std::vector<Plan> plans;
    for (std::int32_t rank = 0; rank < world.ranks(); ++rank) {
      plans.push_back(plan_of(what, workload_, rank));
    }
    verify(plans, workload_);
    handle_ = executor_->prepare(plans[static_cast<std::size_t>(world.rank())]);
  }

  /// What is in `total` after so many iterations from fresh storage.
  std::vector<float> total_after(Values values, Mode mode, std::size_t iterations) {
    executor_->poison(handle_);
    write(kStep, values);
    for (const TensorId id : {kMoved, kTotal}) {
      write(id, [](std::int32_t, std::int32_t, std::int32_t) { return 0.0; });
    }
    executor_->weights_written();
    std::vector<Timeline> timelines(mode == Mode::isolated ? 1 : iterations);
    const std::size_t runs = mode == Mode::isolated ? iterations : 1;
    for (std::size_t run = 0; run < runs; ++run) executor_->run(handle_, mode, timelines);
    std::vector<float> total(static_cast<std::size_t>(workload_.tensors[kTotal].elements()));
    executor_->read(handle_, whole(kTotal, workload_.tensors[kTotal]), total);
    return total;
  }

  /// The first element of `total` that is further off than `tolerance` times the sum of its terms'
  /// magnitudes.
  [[nodiscard]] std::string first_mismatch(const std::vector<float>& total, Values values,
                                           double times, double tolerance) const {
    for (std::size_t i = 0; i < total.size(); ++i) {
      const auto row = static_cast<std::int32_t>(i / kColumns);
      const auto col = static_cast<std::int32_t>(i % kColumns);
      const double expected =
          times * received_in(what_.kind, values, world_.ranks(), world_.rank(), row, col);
      if (std::abs(total[i] - expected) <= tolerance * expected) continue;  // false for NaN
      return fmt::format("{}: rank {} of {} has {} in [{}, {}], expected {}", describe(what_),
                         world_.rank(), world_.ranks(), total[i], row, col, expected);
    }
    return "";
  }

 private:
  void write(TensorId id, Values values) {
    const Tensor& tensor = workload_.tensors[id];
    std::vector<float> packed;
    for (std::int32_t row = 0; row < tensor.rows; ++row) {
      for (std::int32_t col = 0; col < tensor.cols; ++col) {
        packed.push_back(static_cast<float>(values(world_.rank(), row, col)));
      }
    }
    executor_->write(handle_, whole(id, tensor), packed);
  }

  World& world_;
  CollectiveCase what_;
  Workload workload_;
  std::unique_ptr<Executor> executor_;
  PlanHandle handle_{};
};

}  // namespace

std::string describe(const CollectiveCase& what) {
  return fmt::format("{} in {} on the {} lane, {}", name_of(what.kind), name_of(what.dtype),
                     name_of(what.lane), name_of(what.via));
}

Workload workload_of(const CollectiveCase& what, std::int32_t ranks) {
  Workload workload;
  workload.name = "by hand";
  workload.ranks = ranks;
  const std::int32_t all = what.rows > 0 ? what.rows : ranks * kRows;
  const std::int32_t sent = whole_is_sent(what.kind) ? all : kRows;
  const std::int32_t received = whole_is_received(what.kind) ? all : kRows;
  workload.tensors = {{"step", sent, kColumns, what.dtype},
                      {"moved", sent, kColumns, what.dtype},
                      {"total", received, kColumns, what.dtype}};
  workload.outputs = {whole(kTotal, workload.tensors[kTotal])};
  return workload;
}

Plan plan_of(const CollectiveCase& what, const Workload& workload, std::int32_t rank) {
  const auto all_of = [&](TensorId id) { return whole(id, workload.tensors[id]); };
  PlanBuilder builder(workload, rank);
  const Tensor& total = workload.tensors[kTotal];
  const TensorId received = builder.scratch("received", total.rows, total.cols, total.dtype);
  builder.compute(Accumulate{all_of(kMoved), all_of(kMoved), all_of(kStep)});
  builder.collective(
      what.lane, {what.kind, all_of(kMoved), whole(received, builder.tensor(received)), what.via});
  builder.compute(
      Accumulate{all_of(kTotal), all_of(kTotal), whole(received, builder.tensor(received))});
  return builder.take({all_of(kStep), all_of(kMoved), all_of(kTotal)}, workload.outputs);
}

std::string run_collective(World& world, const CollectiveCase& what,
                           const MakeExecutor& make_executor, Iterations iterations) {
  CollectiveRun run(world, what, make_executor);
  std::string mismatch =
      run.first_mismatch(run.total_after(integers, Mode::isolated, 1), integers, 1, 0);
  const Mode mode = iterations == Iterations::back_to_back ? Mode::steady : Mode::isolated;
  // Iteration i receives i times what the first one does.
  const std::vector<float> total = run.total_after(integers, mode, 3);
  if (mismatch.empty()) mismatch = run.first_mismatch(total, integers, 1 + 2 + 3, 0);
  return mismatch;
}

std::string run_inexact_all_reduce(World& world, DType dtype, const MakeExecutor& make_executor,
                                   CollectiveVia via) {
  CollectiveRun run(world, {CollectiveKind::all_reduce, dtype, Lane::scatter, via}, make_executor);
  const std::vector<float> total = run.total_after(fractions, Mode::isolated, 1);
  const std::span<const std::byte> own = std::as_bytes(std::span(total));
  const bool same = std::ranges::equal(world.broadcast(own, 0), own);
  if (!same) {
    return fmt::format("all_reduce in {}: rank {} has other bits than rank 0", name_of(dtype),
                       world.rank());
  }
  // Each term is rounded when it is stored, and the sum after each of them at the most.
  const double tolerance = (world.ranks() + 1) * 2 * unit_roundoff(dtype);
  return run.first_mismatch(total, fractions, 1, tolerance);
}

}  // namespace commfuse
