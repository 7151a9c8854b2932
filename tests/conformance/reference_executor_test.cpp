// SPDX-License-Identifier: Apache-2.0
// The judge is judged: plans made by hand whose outcome is known.
#include "tests/conformance/reference_executor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/conformance/reference_compute.h"
#include "tests/suite/attention_gradient_reference.h"

namespace commfuse {
namespace {

using Transfer = PlanBuilder::Transfer;

/// `ranks` ranks with matrices a, b, c, d, e of 4 x 4.
Workload matrices(std::int32_t ranks, DType dtype = DType::f32) {
  Workload workload;
  workload.ranks = ranks;
  for (const char* name : {"a", "b", "c", "d", "e"})
    workload.tensors.push_back({name, 4, 4, dtype});
  return workload;
}

constexpr TensorId kA = 0;
constexpr TensorId kB = 1;
constexpr TensorId kC = 2;
constexpr TensorId kD = 3;
constexpr TensorId kE = 4;

View rows(TensorId id, std::int32_t row, std::int32_t count) {
  return {.tensor = id, .row = row, .rows = count, .cols = 4};
}

std::vector<double> counting(std::int64_t count, double first = 1) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<double>(i));
  return values;
}

/// What `act` throws as ExecutionError.
template <class Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const ExecutionError& error) {
    return error.what();
  }
  return "";
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(rounded, goes_to_the_nearest_and_to_even) {
  EXPECT_EQ(rounded(1.0 + std::exp2(-30), DType::f32), 1.0);
  EXPECT_EQ(rounded(257.0, DType::bf16), 256.0);
  EXPECT_EQ(rounded(259.0, DType::bf16), 260.0);
  EXPECT_EQ(rounded(-257.5, DType::bf16), -258.0);
  EXPECT_EQ(rounded(2049.0, DType::f16), 2048.0);
  EXPECT_EQ(rounded(2049.0 + std::exp2(-20), DType::f16), 2048.0);  // fp32 has 2049
  for (const DType dtype : kDTypes) EXPECT_TRUE(std::isnan(rounded(std::nan(""), dtype)));
}

class Compute : public testing::Test {
 protected:
  /// Runs one op on a = 1..16, b = 2..17, c = 3..18 and returns d.
  std::vector<double> run(const commfuse::Compute& op) {
    const Workload workload = matrices(1);
    PlanBuilder builder(workload, 0);
    const std::array plans{builder.take({}, {})};
    ReferenceMemory memory(plans);
    for (const TensorId id : {kA, kB, kC}) {
      memory.write(0, rows(id, 0, 4), counting(16, 1.0 + id));
    }
    run_compute(op, 0, memory);
    return memory.read(0, rows(kD, 0, 4));
  }
};

TEST_F(Compute, gemm_with_strips_and_c) {
  // Rows 0 and 2 of a times the transpose of rows 0 to 1 of b, plus c, into columns 1 to 2 of d.
  const Gemm gemm{.d = {.tensor = kD, .row = 1, .rows = 2, .col = 1, .cols = 2},
                  .a = {.tensor = kA, .rows = 1, .cols = 4, .strips = 2, .row_step = 2},
                  .b = rows(kB, 0, 2),
                  .c = View{.tensor = kC, .rows = 2, .cols = 2}};
  const std::vector<double> d = run(gemm);
  EXPECT_EQ(d[5], 1 * 2 + 2 * 3 + 3 * 4 + 4 * 5 + 3);
  EXPECT_EQ(d[6], 1 * 6 + 2 * 7 + 3 * 8 + 4 * 9 + 4);
  EXPECT_EQ(d[9], 9 * 2 + 10 * 3 + 11 * 4 + 12 * 5 + 7);
  EXPECT_TRUE(std::isnan(d[4]));
  EXPECT_TRUE(std::isnan(d[13]));
}

TEST_F(Compute, gemm_with_both_transposes) {
  const Gemm gemm{.d = {.tensor = kD, .rows = 2, .cols = 2},
                  .a = {.tensor = kA, .rows = 3, .cols = 2},
                  .b = {.tensor = kB, .rows = 3, .cols = 2},
                  .c = {},
                  .transpose_a = true,
                  .transpose_b = false};
  EXPECT_EQ(run(gemm)[0], 1 * 2 + 5 * 6 + 9 * 10);
  EXPECT_EQ(run(gemm)[5], 2 * 3 + 6 * 7 + 10 * 11);
}

TEST_F(Compute, accumulate_sums_all_strips) {
  const Accumulate sum{.d = rows(kD, 0, 1),
                       .a = rows(kA, 1, 1),
                       .terms = {.tensor = kB, .rows = 1, .cols = 4, .strips = 3, .row_step = 1}};
  EXPECT_EQ(run(sum)[0], 5 + 2 + 6 + 10);
  EXPECT_EQ(run(sum)[3], 8 + 5 + 9 + 13);
}

TEST_F(Compute, adam_takes_a_step) {
  // W is the second row of a, M the first of b, V the first of c, G the first of a.
  const Adam step{.new_w = rows(kD, 0, 1),
                  .new_m = rows(kD, 1, 1),
                  .new_v = rows(kD, 2, 1),
                  .w = rows(kA, 1, 1),
                  .m = rows(kB, 0, 1),
                  .v = rows(kC, 0, 1),
                  .g = rows(kA, 0, 1),
                  .copy = rows(kD, 3, 1)};
  const std::vector<double> d = run(step);
  const double m = 0.9 * 4 + 0.1 * 3;
  const double v = 0.95 * 5 + 0.05 * 9;
  const double direction =
      m / (1 - std::pow(0.9, 10)) / (std::sqrt(v / (1 - std::pow(0.95, 10))) + 1e-8);
  EXPECT_NEAR(d[6], m, 1e-5);
  EXPECT_NEAR(d[10], v, 1e-5);
  EXPECT_NEAR(d[2], 7 - 1e-3 * (0.1 * 7 + direction), 1e-6);
  EXPECT_EQ(d[14], d[2]);
}

TEST_F(Compute, residual_adds_packed_rows) {
  const Residual sum{.y = rows(kD, 1, 2),
                     .x = rows(kA, 0, 2),
                     .r = {.tensor = kB, .rows = 1, .cols = 4, .strips = 2, .row_step = 3}};
  EXPECT_EQ(run(sum)[4], 1 + 2);
  EXPECT_EQ(run(sum)[11], 8 + 17);
}

TEST_F(Compute, copy_packs) {
  const Copy copy{.d = rows(kD, 2, 2),
                  .s = {.tensor = kA, .rows = 1, .cols = 4, .strips = 2, .row_step = 3}};
  EXPECT_EQ(run(copy)[8], 1);
  EXPECT_EQ(run(copy)[12], 13);
}

TEST_F(Compute, activations) {
  const View x{.tensor = kA, .rows = 1, .cols = 4};
  const View half{.tensor = kD, .rows = 1, .cols = 2};
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  EXPECT_EQ(run(Elementwise{half, x, Activation::swiglu})[1], rounded(silu(2) * 4, DType::f32));
  EXPECT_EQ(run(Elementwise{rows(kD, 0, 1), x, Activation::gelu})[0],
            rounded(0.5 * (1 + std::erf(std::sqrt(0.5))), DType::f32));
  EXPECT_EQ(run(Elementwise{rows(kD, 0, 1), x, Activation::relu})[3], 4);
}

TEST_F(Compute, activation_gradients) {
  // The gate is a[0] = 1, 2 and up 3, 4; dY is b[0] = 2, 3, ...
  const View x{.tensor = kA, .rows = 1, .cols = 4};
  const View dy{.tensor = kB, .rows = 1, .cols = 2};
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const std::vector<double> both =
      run(ActivationGradient{rows(kD, 0, 1), dy, x, Activation::swiglu});
  EXPECT_NEAR(both[1], 3 * 4 * sigmoid(2) * (1 + 2 * (1 - sigmoid(2))), 1e-6);
  EXPECT_NEAR(both[3], 3 * 2 * sigmoid(2), 1e-6);
  const ActivationGradient gelu{rows(kD, 0, 1), rows(kB, 0, 1), x, Activation::gelu};
  EXPECT_NEAR(run(gelu)[0], 2 * (0.8413447460685429 + 0.24197072451914337), 1e-6);
  const ActivationGradient relu{rows(kD, 0, 1), rows(kB, 0, 1), x, Activation::relu};
  EXPECT_EQ(run(relu)[3], 5);
}

TEST_F(Compute, norms_and_their_gradients) {
  // A row of a is 1, 2, 3, 4, whose mean square is 7.5; gamma is the second row of b: 6, 7, 8, 9.
  const double root = std::sqrt(7.5 + kNormEpsilon);
  EXPECT_NEAR(run(Norm{rows(kD, 1, 1), rows(kA, 0, 1), rows(kB, 1, 1)})[6], 3 / root * 8, 1e-5);
  // dY is the first row of c: 3, 4, 5, 6. dY gamma is 18, 28, 40, 54, and its product with x 410.
  const std::vector<double> dx =
      run(NormGradient{rows(kD, 2, 1), rows(kC, 0, 1), rows(kA, 0, 1), rows(kB, 1, 1)});
  EXPECT_NEAR(dx[10], (40 - 3 / root * (410 / root / 4)) / root, 1e-5);
  // Two rows: 1, 2, 3, 4 and 5, 6, 7, 8 of a times the first two of c.
  const double second = std::sqrt(43.5 + kNormEpsilon);
  GammaGradient gradient{rows(kD, 3, 1), rows(kC, 0, 2), rows(kA, 0, 2)};
  EXPECT_NEAR(run(gradient)[13], 4 * 2 / root + 8 * 6 / second, 1e-5);
  gradient.d = rows(kC, 3, 1);
  gradient.adds = true;
  const Workload workload = matrices(1);
  PlanBuilder builder(workload, 0);
  const std::array plans{builder.take({}, {})};
  ReferenceMemory memory(plans);
  for (const TensorId id : {kA, kC}) memory.write(0, rows(id, 0, 4), counting(16, 1.0 + id));
  run_compute(gradient, 0, memory);
  EXPECT_NEAR(memory.read(0, rows(kC, 3, 1))[1], 16 + 4 * 2 / root + 8 * 6 / second, 1e-5);
}

TEST_F(Compute, attention_sees_what_the_mask_shows) {
  // Two heads of 2 columns share one kv head; rows of 4 tokens hold positions 0, 3, 1, 2.
  Attention op{.o = rows(kD, 0, 4),
               .q = rows(kA, 0, 4),
               .k = {.tensor = kB, .rows = 4, .cols = 2},
               .v = {.tensor = kC, .rows = 4, .cols = 2},
               .heads = 2,
               .kv_heads = 1,
               .head_dim = 2,
               .mask = Mask::causal};
  const std::vector<double> causal = run(op);
  EXPECT_EQ(causal[0], 3);  // position 0 sees itself alone
  EXPECT_EQ(causal[2], 3);
  // Scores grow with the key row by far, so each query takes the last row it sees.
  EXPECT_NEAR(causal[8], 11, 1e-5);   // position 1: rows 0 and 2
  EXPECT_NEAR(causal[12], 15, 1e-5);  // position 2: rows 0, 2 and 3
  op.mask = Mask::full;
  EXPECT_NEAR(run(op)[8], 15, 1e-5);
}

TEST_F(Compute, attention_gradients_are_those_of_the_definition) {
  // Two tiles of two heads, which share one kv head; the second adds to the first.
  const View keys{.tensor = kB, .rows = 4, .cols = 2};
  AttentionGradient op{.dq = rows(kD, 0, 4),
                       .dk = {.tensor = kB, .rows = 4, .col = 2, .cols = 2},
                       .dv = {.tensor = kC, .rows = 4, .col = 2, .cols = 2},
                       .d_o = rows(kE, 0, 4),
                       .q = rows(kA, 0, 4),
                       .k = keys,
                       .v = {.tensor = kC, .rows = 4, .cols = 2},
                       .heads = 2,
                       .kv_heads = 1,
                       .head_dim = 2};
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const bool adds : {false, true}) {
      op.mask = mask;
      op.adds = adds;
      const Workload workload = matrices(1);
      PlanBuilder builder(workload, 0);
      const std::array plans{builder.take({}, {})};
      ReferenceMemory memory(plans);
      for (const TensorId id : {kA, kB, kC, kE}) {
        std::vector<double> values = counting(16, 1.0 + id);
        for (double& value : values) value = std::sin(value);
        memory.write(0, rows(id, 0, 4), values);
      }
      const auto held = [&](const View& view) { return memory.read(0, view); };
      const ExpectedGradient expected = AttentionGradientReference(op, {.d_o = held(op.d_o),
                                                                        .q = held(op.q),
                                                                        .k = held(op.k),
                                                                        .v = held(op.v),
                                                                        .dk = held(op.dk),
                                                                        .dv = held(op.dv)})
                                            .gradient();
      run_compute(op, 0, memory);
      const auto compare = [&](const View& view, const std::vector<BoundedValue>& wanted) {
        const std::vector<double> got = held(view);
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i].value, 1e-6);
      };
      compare(op.dq, expected.dq);
      compare(op.dk, expected.dk);
      compare(op.dv, expected.dv);
    }
  }
}

TEST_F(Compute, shapes_must_fit) {
  EXPECT_THROW(run(Copy{rows(kD, 0, 2), rows(kA, 0, 1)}), std::invalid_argument);
  EXPECT_THROW(run(Gemm{.d = rows(kD, 0, 2), .a = rows(kA, 0, 1), .b = rows(kB, 0, 4), .c = {}}),
               std::invalid_argument);
}

/// Two ranks pass row 0 of a to row 1 of b of each other; then each copies it to d.
std::vector<Plan> swap_rows(const Workload& workload) {
  std::vector<Plan> plans;
  for (const std::int32_t rank : {0, 1}) {
    PlanBuilder builder(workload, rank);
    builder.compute(Copy{rows(kA, 0, 1), rows(kC, rank, 1)});
    builder.exchange(Lane::scatter, std::array{Transfer{true, 1 - rank, rows(kA, 0, 1)},
                                               Transfer{false, 1 - rank, rows(kB, 1, 1)}});
    builder.compute(Copy{rows(kD, 0, 1), rows(kB, 1, 1)});
    builder.compute(Copy{rows(kA, 0, 1), rows(kC, 3, 1)});
    plans.push_back(builder.take({}, {}));
  }
  return plans;
}

/// The first element of d on rank 0 over many seeds.
std::set<double> outcomes(const std::vector<Plan>& plans) {
  std::set<double> found;
  ReferenceExecutor executor(plans);
  ReferenceMemory memory(plans);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    memory.poison();
    for (const std::int32_t rank : {0, 1}) memory.write(rank, rows(kC, 0, 4), counting(16));
    executor.run(memory, seed);
    const double value = memory.read(0, rows(kD, 0, 1)).front();
    found.insert(std::isnan(value) ? -1 : value);
  }
  return found;
}

TEST(ReferenceExecutor, has_one_outcome_for_a_sound_plan) {
  EXPECT_EQ(outcomes(swap_rows(matrices(2))), std::set<double>{5});
}

TEST(ReferenceExecutor, reads_too_early_without_a_dependency) {
  std::vector<Plan> plans = swap_rows(matrices(2));
  plans[0].ops[2].dependencies = 0;
  EXPECT_EQ(outcomes(plans), (std::set<double>{-1, 5}));
}

TEST(ReferenceExecutor, sends_what_was_overwritten_meanwhile) {
  std::vector<Plan> plans = swap_rows(matrices(2));
  plans[1].ops[3].dependencies = 0;
  EXPECT_EQ(outcomes(plans), (std::set<double>{5, 13}));
}

TEST(ReferenceExecutor, starts_messages_on_their_own) {
  // Rank 0 may receive before it has computed what it sends in the same exchange. Written by hand
  // as an earlier reader of b without a dependency of the receive on it.
  const Workload workload = matrices(2);
  std::vector<Plan> plans;
  for (const std::int32_t rank : {0, 1}) {
    PlanBuilder builder(workload, rank);
    builder.compute(Copy{rows(kB, 1, 1), rows(kC, 2, 1)});
    builder.compute(Copy{rows(kD, 0, 1), rows(kB, 1, 1)});
    builder.compute(Copy{rows(kA, 0, 1), rows(kC, rank, 1)});
    builder.exchange(Lane::scatter, std::array{Transfer{true, 1 - rank, rows(kA, 0, 1)},
                                               Transfer{false, 1 - rank, rows(kB, 1, 1)}});
    plans.push_back(builder.take({}, {}));
  }
  EXPECT_EQ(outcomes(plans), std::set<double>{9});
  for (Plan& plan : plans) plan.messages[1].dependencies = 0;
  EXPECT_EQ(outcomes(plans), (std::set<double>{5, 9}));
}

TEST(ReferenceExecutor, names_both_sides_of_different_sizes) {
  std::vector<Plan> plans = swap_rows(matrices(2));
  plans[0].messages[1].view.cols = 3;
  plans[0].messages[1].logical_bytes = 12;
  const std::string error = error_of([&] { outcomes(plans); });
  EXPECT_TRUE(contains(error, "rank 0 op 1")) << error;
  EXPECT_TRUE(contains(error, "receives 12 bytes into b[1:2, 0:3]")) << error;
  EXPECT_TRUE(contains(error, "sends 16 bytes")) << error;
}

TEST(ReferenceExecutor, names_who_waits_for_whom_in_a_deadlock) {
  const Workload workload = matrices(2);
  std::vector<Plan> plans;
  for (const std::int32_t rank : {0, 1}) {
    PlanBuilder builder(workload, rank);
    // Both receive before they send what depends on it.
    builder.exchange(Lane::scatter, std::array{Transfer{false, 1 - rank, rows(kB, 0, 1)}});
    builder.exchange(Lane::scatter, std::array{Transfer{true, 1 - rank, rows(kB, 0, 1)}});
    plans.push_back(builder.take({}, {}));
  }
  const std::string error = error_of([&] { outcomes(plans); });
  EXPECT_TRUE(contains(error, "deadlock:\n  rank 0 op 0")) << error;
  EXPECT_TRUE(contains(error, "b[0:1, :] from rank 1 waits for rank 1 op 1")) << error;
  EXPECT_TRUE(contains(error, "rank 1 op 1")) << error;
  EXPECT_TRUE(contains(error, "waits for op 0")) << error;
}

TEST(ReferenceExecutor, names_a_view_outside_its_tensor) {
  std::vector<Plan> plans = swap_rows(matrices(2));
  std::get<Copy>(plans[1].ops[2].work).d.row = 4;
  const std::string error = error_of([&] { ReferenceExecutor executor(plans); });
  EXPECT_TRUE(contains(error, "rank 1 op 2")) << error;
  EXPECT_TRUE(contains(error, "d[4:5, :] lies outside its tensor of 4 x 4")) << error;
}

TEST(ReferenceExecutor, runs_collectives_of_all_ranks) {
  const Workload workload = matrices(2);
  std::vector<Plan> plans;
  for (const std::int32_t rank : {0, 1}) {
    PlanBuilder builder(workload, rank);
    builder.collective(Lane::gather,
                       {CollectiveKind::all_gather, rows(kA, 2 * rank, 2), rows(kA, 0, 4)});
    builder.collective(Lane::scatter,
                       {CollectiveKind::reduce_scatter, rows(kA, 0, 4), rows(kB, 0, 2)});
    plans.push_back(builder.take({}, {}));
  }
  ReferenceExecutor executor(plans);
  ReferenceMemory memory(plans);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    memory.poison();
    for (const std::int32_t rank : {0, 1}) memory.write(rank, rows(kA, 2 * rank, 2), counting(8));
    executor.run(memory, seed);
    EXPECT_EQ(memory.read(1, rows(kA, 0, 2)), counting(8));
    EXPECT_EQ(memory.read(1, rows(kB, 0, 2)).front(), 2);
    EXPECT_TRUE(contains(executor.last_writer(1, kB, 1, 2), "rank 1 op 1"));
    EXPECT_TRUE(contains(executor.last_writer(1, kB, 3, 2), "written by no op; the last to write"));
    EXPECT_EQ(executor.last_writer(1, kD, 0, 0), "written by no op");
  }
}

/// One row per rank; what rank r holds in row i and column c is 16 r + 4 i + c + seed.
class CollectivesOfRanks : public testing::TestWithParam<std::tuple<std::int32_t, DType>> {
 protected:
  static double value(std::int32_t rank, std::int32_t row, std::int32_t col, std::uint64_t seed) {
    return 16.0 * rank + 4 * row + col + static_cast<double>(seed);
  }
  /// Runs from a into b, and compares b with `expected(rank, row, col, seed)` under many seeds.
  template <class Expected>
  void run(CollectiveKind kind, Expected expected) {
    const auto [ranks, dtype] = GetParam();
    const Workload workload = matrices(ranks, dtype);
    std::vector<Plan> plans;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      PlanBuilder builder(workload, rank);
      builder.collective(Lane::scatter, {kind, rows(kA, 0, ranks), rows(kB, 0, ranks)});
      plans.push_back(builder.take({}, {}));
    }
    ReferenceExecutor executor(plans);
    ReferenceMemory memory(plans);
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      memory.poison();
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        memory.write(rank, rows(kA, 0, ranks), values(rank, seed, value));
      }
      executor.run(memory, seed);
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(memory.read(rank, rows(kB, 0, ranks)), values(rank, seed, expected));
      }
    }
  }
  template <class Value>
  static std::vector<double> values(std::int32_t rank, std::uint64_t seed, Value value) {
    std::vector<double> values;
    for (std::int32_t row = 0; row < std::get<0>(GetParam()); ++row) {
      for (std::int32_t col = 0; col < 4; ++col) values.push_back(value(rank, row, col, seed));
    }
    return values;
  }
};

TEST_P(CollectivesOfRanks, exchange_their_blocks) {
  run(CollectiveKind::all_to_all, [](std::int32_t rank, std::int32_t row, std::int32_t col,
                                     std::uint64_t seed) { return value(row, rank, col, seed); });
}

TEST_P(CollectivesOfRanks, sum_into_every_rank) {
  const auto [ranks, dtype] = GetParam();
  run(CollectiveKind::all_reduce,
      [ranks = ranks, dtype = dtype](std::int32_t, std::int32_t row, std::int32_t col,
                                     std::uint64_t seed) {
        double sum = 0;
        for (std::int32_t r = 0; r < ranks; ++r) sum += value(r, row, col, seed);
        return rounded(sum, dtype);
      });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesOfRanks,
                         testing::Combine(testing::Values(2, 3, 4),
                                          testing::Values(DType::f32, DType::bf16)));

TEST(ReferenceExecutor, refuses_collectives_whose_views_do_not_fit) {
  const Workload workload = matrices(2);
  const auto error_with = [&](const Collective& collective) {
    std::vector<Plan> plans;
    for (const std::int32_t rank : {0, 1}) {
      PlanBuilder builder(workload, rank);
      builder.collective(Lane::gather, collective);
      plans.push_back(builder.take({}, {}));
    }
    return error_of([&] {
      ReferenceMemory memory(plans);
      ReferenceExecutor(plans).run(memory, 0);
    });
  };
  for (const CollectiveKind kind : {CollectiveKind::all_to_all, CollectiveKind::all_reduce}) {
    EXPECT_EQ(error_with({kind, rows(kA, 0, 2), rows(kB, 0, 2)}), "");
    EXPECT_TRUE(contains(error_with({kind, rows(kA, 0, 2), rows(kB, 0, 1)}), "does not fit"));
  }
}

}  // namespace
}  // namespace commfuse
