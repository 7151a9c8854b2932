// SPDX-License-Identifier: Apache-2.0
#include "suite/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include "tests/suite/moving_workload.h"
#include "tests/suite/plain_run.h"
#include "tests/suite/small_cases.h"

namespace commfuse {
namespace {

std::vector<std::int32_t> all_rows(const View& view) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(view.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// How a run's rows compare with the oracle's.
struct Comparison {
  std::int64_t wrong = 0;
  double largest = 0;  // difference
  double largest_bound = 0;
};

Comparison compare(const Oracle& oracle, const PlainRun& run, Portion portion, std::int32_t rank,
                   const View& output) {
  const std::vector<std::int32_t> numbers = all_rows(output);
  const std::vector<ExpectedRow> rows = oracle.rows(portion, rank, output, numbers);
  Comparison result;
  for (std::int32_t i = 0; i < output.rows; ++i) {
    const ExpectedRow& row = rows.at(static_cast<std::size_t>(i));
    for (std::int32_t j = 0; j < output.cols; ++j) {
      const auto col = static_cast<std::size_t>(j);
      const double difference = std::abs(run.value(rank, output.tensor, i, j) - row.value.at(col));
      if (!(difference <= row.bound.at(col))) ++result.wrong;
      result.largest = std::max(result.largest, difference);
      result.largest_bound = std::max(result.largest_bound, row.bound.at(col));
    }
  }
  return result;
}

void expect_agreement(const Oracle& oracle, const PlainRun& run, const Workload& workload,
                      Portion portion) {
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    for (const View& output : required_outputs(workload, portion)) {
      const Comparison result = compare(oracle, run, portion, rank, output);
      EXPECT_EQ(result.wrong, 0) << "rank " << rank << ' '
                                 << describe(output, workload.tensors[output.tensor])
                                 << " differs by up to " << result.largest;
      if (oracle.exact(portion, output)) {
        EXPECT_EQ(result.largest_bound, 0);
      }
    }
  }
}

/// Computes everything and compares it.
void check_cut(const Workload& workload, const Source& source, Cut cut) {
  PlainRun run(workload, source);
  run.run(cut);
  expect_agreement(Oracle(workload, source), run, workload, Portion::schedule);
}

/// Computes without communication, then communicates without compute.
void check_halves(const Workload& workload, const Source& source) {
  const Oracle oracle(workload, source);
  PlainRun computed(workload, source, Portion::compute_only);
  computed.run(Cut::whole);
  expect_agreement(oracle, computed, workload, Portion::compute_only);
  PlainRun moved(workload, source, Portion::comm_only);
  moved.move();
  expect_agreement(oracle, moved, workload, Portion::comm_only);
}

class OracleOn : public testing::TestWithParam<CaseGroup> {};

TEST_P(OracleOn, ExactDataEqualsEveryCut) {
  for (const SmallCase& small : exact_cases(GetParam())) {
    SCOPED_TRACE(name_of(small));
    const Workload workload = small.build();
    for (const Cut cut : {Cut::whole, Cut::slices, Cut::strips, Cut::features, Cut::targeted}) {
      const Source source{static_cast<std::uint64_t>(cut) + 1, DataMode::exact};
      EXPECT_TRUE(Oracle(workload, source).exact(Portion::schedule));
      check_cut(workload, source, cut);
    }
  }
}

TEST_P(OracleOn, ExactDataEqualsBothHalves) {
  for (const SmallCase& small : exact_cases(GetParam())) {
    SCOPED_TRACE(name_of(small));
    check_halves(small.build(), {9, DataMode::exact});
  }
}

TEST_P(OracleOn, RandomDataStaysWithinTheBound) {
  for (const SmallCase& small : bounded_cases(GetParam())) {
    SCOPED_TRACE(name_of(small));
    const Workload workload = small.build();
    EXPECT_FALSE(Oracle(workload, {4, DataMode::random}).exact(Portion::schedule));
    for (const Cut cut : {Cut::whole, Cut::targeted}) {
      check_cut(workload, {4, DataMode::random}, cut);
    }
    check_halves(workload, {5, DataMode::random});
  }
}

TEST_P(OracleOn, ExactDataStaysWithinTheBound) {
  for (const SmallCase& small : bounded_cases(GetParam())) {
    SCOPED_TRACE(name_of(small));
    check_cut(small.build(), {4, DataMode::exact}, Cut::whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Small, OracleOn, testing::ValuesIn(case_groups()),
                         [](const auto& group) { return name_of(group.param); });

/// Elements of the answer whose bound is smaller than what one rank contributes to them.
double share_that_sees_a_missing_partial(const Workload& workload, const ReduceScatter& reduce,
                                         const Source& source) {
  const Oracle oracle(workload, source);
  const std::vector<std::int32_t> row{1};  // of rank 0: its result and the partials' row 1
  const View result = whole(reduce.result, workload.tensors[reduce.result]);
  const View partial = whole(reduce.partial, workload.tensors[reduce.partial]);
  const ExpectedRow expected = oracle.rows(Portion::schedule, 0, result, row)[0];
  const ExpectedRow missing = oracle.rows(Portion::compute_only, 1, partial, row)[0];
  double seen = 0;
  for (std::size_t i = 0; i < missing.value.size(); ++i) {
    seen += std::abs(missing.value[i]) > expected.bound[i] ? 1 : 0;
  }
  return seen / static_cast<double>(missing.value.size());
}

double least_share(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      return 0.05;
    case DType::f16:
      return 0.5;
  }
  return 0.9;
}

/// At a size where worst-case bounds would let anything pass.
TEST(Bound, IsTightEnoughToSeeAMissingPartial) {
  for (const DType dtype : kDTypes) {
    for (const char* name : {"tpsp/gemm_rs", "tpsp/mlp", "tpsp/attention", "dp/zero2"}) {
      for (const std::int32_t ranks : {2, 8}) {
        Shape shape = parse_shape("hidden=1024,ffn=2048,heads=16,kv_heads=8");
        shape.tokens = 1024;
        shape.dtype = dtype;
        const Workload workload = SmallCase{name, shape, ranks}.build();
        for (const Stage& stage : workload.stages) {
          if (!stage.reduce_scatter) continue;
          const double share = share_that_sees_a_missing_partial(workload, *stage.reduce_scatter,
                                                                 {1, DataMode::random});
          EXPECT_GT(share, least_share(dtype))
              << name << ' ' << stage.name << ' ' << name_of(dtype) << ' ' << ranks;
        }
      }
    }
  }
}

/// Results of fewer bits are not taken for results of more. (Of a single gemm: the bounds of small
/// chains are wider than three bits.)
TEST(Bound, RefusesResultsThatWereRoundedToBf16) {
  const Source source{4, DataMode::random};
  for (const char* name : {"tpsp/ag_gemm", "tpsp/gemm_rs", "dp/zero2", "dp/ddp"}) {
    const Workload coarse = bounded_cases({name, DType::bf16}).back().build();
    const Workload fine = bounded_cases({name, DType::f16}).back().build();
    PlainRun run(coarse, source);
    run.run(Cut::whole);
    const View& output = fine.outputs[0];
    EXPECT_GT(compare(Oracle(fine, source), run, Portion::schedule, 0, output).wrong, 0) << name;
    EXPECT_EQ(compare(Oracle(coarse, source), run, Portion::schedule, 0, output).wrong, 0) << name;
  }
}

/// What data.cpp says of the gemm after a gate, on numbers: far from the 65504 of fp16.
TEST(Bound, ReachesNoInfinityAtRealSizes) {
  Shape shape = parse_shape("hidden=2048,ffn=7168,activation=swiglu");
  shape.tokens = 8;
  shape.dtype = DType::f16;
  const Workload workload = SmallCase{"tpsp/mlp", shape, 1}.build();
  const Oracle oracle(workload, {1, DataMode::random});
  const std::vector<std::int32_t> rows{0, 7};
  for (const ExpectedRow& row : oracle.rows(Portion::schedule, 0, workload.outputs[0], rows)) {
    for (std::size_t i = 0; i < row.value.size(); ++i) {
      EXPECT_LT(std::abs(row.value[i]) + row.bound[i], 1500);
    }
  }
}

TEST(Exact, NeedsExactDataAndAnExactWorkload) {
  Shape shape = parse_shape("hidden=64,ffn=64,heads=4,activation=gelu");
  shape.tokens = 64;
  const Source exact{1, DataMode::exact};
  EXPECT_FALSE(Oracle(SmallCase{"tpsp/mlp", shape, 2}.build(), exact).exact(Portion::schedule));
  EXPECT_TRUE(Oracle(SmallCase{"tpsp/ag_gemm", shape, 2}.build(), exact).exact(Portion::schedule));
  EXPECT_FALSE(Oracle(SmallCase{"tpsp/ag_gemm", shape, 2}.build(), {1, DataMode::random})
                   .exact(Portion::schedule));
  EXPECT_TRUE(
      Oracle(SmallCase{"tpsp/attention", shape, 2}.build(), exact).exact(Portion::schedule));
  shape.head_dim = 5;  // 64 positions take 6 code columns
  EXPECT_FALSE(
      Oracle(SmallCase{"tpsp/attention", shape, 2}.build(), exact).exact(Portion::schedule));
}

/// However many ranks there are, a contribution that is missing shows.
TEST(Exact, WhatOnlyMovesIsExactOnExactData) {
  Shape shape = parse_shape("hidden=64,ffn=64,activation=swiglu");
  shape.tokens = 32;
  shape.dtype = DType::bf16;
  const Workload workload = SmallCase{"tpsp/mlp", shape, 16}.build();
  const Oracle oracle(workload, {1, DataMode::exact});
  EXPECT_TRUE(oracle.exact(Portion::comm_only));
  EXPECT_FALSE(oracle.exact(Portion::compute_only));
  EXPECT_FALSE(Oracle(workload, {1, DataMode::random}).exact(Portion::comm_only));
  const std::vector<std::int32_t> rows{0, 1};
  for (const View& output : required_outputs(workload, Portion::comm_only)) {
    for (const ExpectedRow& row : oracle.rows(Portion::comm_only, 3, output, rows)) {
      EXPECT_EQ(row.bound, std::vector<double>(64, 0.0));
    }
  }
  shape.ffn = shape.tokens = 257;  // sums of so many signs may need nine bits
  const Workload wide = SmallCase{"tpsp/mlp", shape, 257}.build();
  EXPECT_FALSE(Oracle(wide, {1, DataMode::exact}).exact(Portion::comm_only));
}

/// Attention whose codes do not fit: not one-hot, and still within the bound.
TEST(Exact, CrampedCodesAreComparedUnderTheBound) {
  Shape shape = parse_shape("hidden=40,ffn=48,heads=4,head_dim=3");
  shape.tokens = 24;
  const Workload workload = SmallCase{"tpsp/attention", shape, 2}.build();
  const Source source{1, DataMode::exact};
  const Oracle oracle(workload, source);
  PlainRun run(workload, source);
  run.run(Cut::whole);
  expect_agreement(oracle, run, workload, Portion::schedule);
}

std::vector<double> signs(std::size_t count) {
  std::mt19937 random(21);
  std::vector<double> values(count);
  for (double& value : values) value = random() % 2 == 0 ? 1 : -1;
  return values;
}

double dot_row(const PlainRun& run, std::int32_t rank, const View& output, std::int32_t row,
               const std::vector<double>& x) {
  double sum = 0;
  for (std::int32_t j = 0; j < output.cols; ++j) {
    sum += run.value(rank, output.tensor, row, j) * x[static_cast<std::size_t>(j)];
  }
  return sum;
}

void check_projection(const SmallCase& small, DataMode mode, Portion portion) {
  const Workload workload = small.build();
  const Source source{2, mode};
  const Oracle oracle(workload, source);
  PlainRun run(workload, source, portion);
  run.run(Cut::whole);
  const View output = required_outputs(workload, portion)[0];
  const std::vector<double> x = signs(static_cast<std::size_t>(output.cols));
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    const auto projected = oracle.projection(portion, rank, output, x);
    ASSERT_TRUE(projected.has_value());
    ASSERT_EQ(projected->value.size(), static_cast<std::size_t>(output.rows));
    for (std::int32_t row = 0; row < output.rows; ++row) {
      const double bound = projected->bound[static_cast<std::size_t>(row)];
      const double off =
          dot_row(run, rank, output, row, x) - projected->value[static_cast<std::size_t>(row)];
      EXPECT_LE(std::abs(off), bound);
      if (mode == DataMode::exact) {
        EXPECT_EQ(bound, 0);
      }
      // One element that is wrong by a little.
      if (small.shape.dtype == DType::f32) {
        EXPECT_GT(std::abs(off + 0.01), bound);
      }
    }
  }
}

TEST(Projection, AgreesWithRunsAndSeesOneWrongElement) {
  for (const char* name : {"tpsp/ag_gemm", "tpsp/gemm_rs", "dp/zero2", "dp/ddp"}) {
    for (const DType dtype : kDTypes) {
      for (const SmallCase& small : bounded_cases({name, dtype})) {
        if (small.shape.bucket > 0) continue;  // the output is made of several gemms
        SCOPED_TRACE(name_of(small));
        for (const DataMode mode : {DataMode::exact, DataMode::random}) {
          check_projection(small, mode, Portion::schedule);
          check_projection(small, mode, Portion::compute_only);
        }
      }
    }
  }
}

class ProjectionOf : public testing::TestWithParam<const char*> {};

/// As for single elements: a row that lacks one rank's partial lies outside of the bound.
TEST_P(ProjectionOf, SeesAMissingPartialAtRealSizes) {
  for (const DType dtype : kDTypes) {
    Shape shape = parse_shape("hidden=4096,ffn=2048");
    shape.tokens = 64;
    shape.dtype = dtype;
    const Workload workload = SmallCase{GetParam(), shape, 4}.build();
    const Oracle oracle(workload, {1, DataMode::random});
    const auto reduces = [](const Stage& stage) { return stage.reduce_scatter.has_value(); };
    const ReduceScatter reduce = *std::ranges::find_if(workload.stages, reduces)->reduce_scatter;
    const View result = whole(reduce.result, workload.tensors[reduce.result]);
    const View partial = whole(reduce.partial, workload.tensors[reduce.partial]);
    const std::vector<double> x = signs(static_cast<std::size_t>(result.cols));
    const auto expected = oracle.projection(Portion::schedule, 0, result, x);
    const auto missing = oracle.projection(Portion::compute_only, 1, partial, x);
    int seen = 0;
    for (std::size_t row = 0; row < 16; ++row) {
      seen += std::abs(missing->value[row]) > expected->bound[row] ? 1 : 0;
    }
    EXPECT_GE(seen, 8) << name_of(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sums, ProjectionOf, testing::Values("tpsp/gemm_rs", "dp/zero2"), [](const auto& workload) {
      return std::string(workload.param).substr(std::string(workload.param).find('/') + 1);
    });

TEST(Projection, OnlyOfSingleGemms) {
  Shape shape = parse_shape("hidden=64,ffn=64,heads=4");
  shape.tokens = 16;
  for (const char* name : {"tpsp/mlp", "tpsp/attention", "dp/zero3", "dp/zero2"}) {
    const Workload workload = SmallCase{name, shape, 2}.build();
    const Oracle oracle(workload, {});
    EXPECT_FALSE(oracle.projection(Portion::schedule, 0, workload.outputs.back(), signs(64)));
  }
  const Workload gemm = SmallCase{"tpsp/gemm_rs", shape, 2}.build();
  EXPECT_FALSE(Oracle(gemm, {}).projection(Portion::comm_only, 0, gemm.outputs[0], signs(64)));
}

TEST(Projection, OfSomeRows) {
  Shape shape = parse_shape("hidden=64,ffn=64");
  shape.tokens = 16;
  const std::vector<double> x = signs(64);
  for (const char* name : {"tpsp/gemm_rs", "tpsp/ag_gemm", "dp/zero2", "dp/ddp"}) {
    const Workload workload = SmallCase{name, shape, 1}.build();
    const Oracle oracle(workload, {});
    View output = workload.outputs[0];
    const auto all = oracle.projection(Portion::schedule, 0, output, x);
    output.row = 5;
    output.rows = 3;
    const auto some = oracle.projection(Portion::schedule, 0, output, x);
    const std::vector<double> expected(all->value.begin() + 5, all->value.begin() + 8);
    EXPECT_EQ(some->value, expected) << name;
  }
}

TEST(Projection, RefusesWhatItCannotProject) {
  Shape shape = parse_shape("hidden=64,ffn=64");
  shape.tokens = 16;
  const Workload workload = SmallCase{"tpsp/gemm_rs", shape, 2}.build();
  const Oracle oracle(workload, {});
  const auto project = [&](const View& output, std::size_t numbers) {
    return oracle.projection(Portion::schedule, 0, output, signs(numbers));
  };
  View output = workload.outputs[0];
  EXPECT_THROW(project(output, 63), std::logic_error);
  output.cols = 63;
  EXPECT_THROW(project(output, 63), std::logic_error);
  const TensorId weight = workload.weights[0];
  EXPECT_THROW(project(whole(weight, workload.tensors[weight]), 32), std::logic_error);
}

View whole_of(const Workload& workload, TensorId id) { return whole(id, workload.tensors[id]); }

/// Rows that were sent, scattered, gathered and summed over all ranks, in stages that read each
/// other's results; and each half alone, on stand-ins.
TEST(Oracle, FollowsEveryMovement) {
  for (const DType dtype : kDTypes) {
    for (const std::int32_t ranks : {1, 2, 3, 4}) {
      for (const DataMode mode : {DataMode::exact, DataMode::random}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << " ranks " << ranks);
        const Workload workload = MovingWorkload::build(ranks, dtype, true);
        check_cut(workload, {3, mode}, Cut::whole);
        check_halves(workload, {4, mode});
        check_halves(MovingWorkload::build(ranks, dtype, false), {5, mode});
      }
    }
  }
}

/// Rows in any order, from several senders at once.
TEST(Oracle, TakesReceivedRowsApart) {
  const Workload workload = MovingWorkload::build(3, DType::f32, true);
  const Oracle oracle(workload, {});
  const std::vector<std::int32_t> rows{5, 0, 2, 1};
  const View received = whole_of(workload, MovingWorkload::received);
  const View sent = whole_of(workload, MovingWorkload::send);
  const std::vector<ExpectedRow> got = oracle.rows(Portion::schedule, 1, received, rows);
  ASSERT_EQ(got.size(), 4U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::int32_t> row{2 + rows[i] % 2};  // the second block of what is sent
    const auto expected = oracle.rows(Portion::compute_only, rows[i] / 2, sent, row);
    EXPECT_EQ(got[i].value, expected[0].value) << rows[i];
  }
}

TEST(Oracle, IsExactOutputByOutput) {
  const Workload workload = MovingWorkload::build(2, DType::f32, true);
  const Oracle oracle(workload, {1, DataMode::exact});
  const auto exact = [&](Portion portion, TensorId id) {
    return oracle.exact(portion, whole_of(workload, id));
  };
  EXPECT_TRUE(exact(Portion::schedule, MovingWorkload::received));
  EXPECT_TRUE(exact(Portion::schedule, MovingWorkload::sum));
  EXPECT_FALSE(exact(Portion::schedule, MovingWorkload::last));
  EXPECT_FALSE(oracle.exact(Portion::schedule));
  EXPECT_TRUE(exact(Portion::compute_only, MovingWorkload::partial));
  EXPECT_FALSE(exact(Portion::compute_only, MovingWorkload::last));
  EXPECT_TRUE(oracle.exact(Portion::comm_only));
  const Oracle random(workload, {1, DataMode::random});
  EXPECT_FALSE(random.exact(Portion::schedule, whole_of(workload, MovingWorkload::received)));
}

TEST(Projection, NotOfRowsFromSeveralRanks) {
  const Workload workload = MovingWorkload::build(2, DType::f32, true);
  const Oracle oracle(workload, {});
  const View received = whole_of(workload, MovingWorkload::received);
  const View sent = whole_of(workload, MovingWorkload::send);
  EXPECT_FALSE(oracle.projection(Portion::schedule, 0, received, signs(4)));
  EXPECT_FALSE(oracle.projection(Portion::comm_only, 0, received, signs(4)));
  const std::vector<double> x = signs(4);
  const auto projected = oracle.projection(Portion::compute_only, 1, sent, x);
  ASSERT_TRUE(projected);
  const auto rows = oracle.rows(Portion::compute_only, 1, sent, all_rows(sent));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(projected->value[i],
              std::inner_product(x.begin(), x.end(), rows[i].value.begin(), 0.0));
  }
}

TEST(Oracle, NeedsAnswersForEveryOutput) {
  const Workload complete = MovingWorkload::build(2, DType::f32, true);
  for (const TensorId left_out : {MovingWorkload::send, MovingWorkload::partial,
                                  MovingWorkload::share, MovingWorkload::last}) {
    Workload workload = complete;
    workload.answers = [&](const Source& source, Portion portion) {
      std::vector<Answers> all = complete.answers(source, portion);
      std::erase_if(all, [&](const Answers& answers) { return answers.tensor == left_out; });
      return all;
    };
    EXPECT_THROW(Oracle(workload, {}), std::logic_error) << left_out;
  }
}

TEST(Oracle, RefusesTensorsThatAreNoOutputs) {
  Shape shape = parse_shape("hidden=64,ffn=64");
  shape.tokens = 16;
  const Workload workload = SmallCase{"tpsp/mlp", shape, 2}.build();
  const Oracle oracle(workload, {});
  const View weight = whole(workload.weights[0], workload.tensors[workload.weights[0]]);
  const std::vector<std::int32_t> row{0};
  EXPECT_THROW(static_cast<void>(oracle.rows(Portion::schedule, 0, weight, row)), std::logic_error);
}

}  // namespace
}  // namespace commfuse
