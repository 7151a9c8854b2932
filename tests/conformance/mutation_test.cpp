// SPDX-License-Identifier: Apache-2.0
// Every kind of damage to a plan, at every place, is noticed by verify() or by the reference
// executor within 20 seeds, and the message names op, rank and view. Damage that neither notices
// must be harmless: no execution of it can deadlock or depend on timing (happens_before.h), so that
// the 20 results that were right stand for all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "impls/implementation.h"
#include "impls/verify.h"
#include "suite/workload.h"
#include "tests/conformance/case_data.h"
#include "tests/conformance/happens_before.h"
#include "tests/conformance/mutants.h"
#include "tests/conformance/reference_executor.h"

namespace commfuse {
namespace {

constexpr std::uint64_t kSeeds = 20;

struct PlanCase {
  std::string_view workload;
  std::string_view implementation;
  std::int32_t ranks;
};

constexpr std::array kPlanCases{
    PlanCase{"tpsp/gemm_rs", "plain", 3},
    PlanCase{"tpsp/gemm_rs", "sliced:n=3:axis=tokens", 3},
    PlanCase{"tpsp/gemm_rs", "sliced:n=3:axis=features", 3},
    PlanCase{"tpsp/gemm_rs", "commfuse:order=ring:m=1:accumulate=add", 4},
    PlanCase{"tpsp/gemm_rs", "commfuse:order=ring:m=2:accumulate=epilogue", 4},
    PlanCase{"tpsp/gemm_rs", "commfuse:order=direct:m=1:accumulate=add", 4},
    PlanCase{"tpsp/gemm_rs", "commfuse:order=direct:m=2:accumulate=once", 4},
    PlanCase{"tpsp/ag_gemm", "plain", 3},
    PlanCase{"tpsp/ag_gemm", "sliced:n=3:axis=tokens", 3},
    PlanCase{"tpsp/ag_gemm", "commfuse:order=ring:m=2", 4},
    PlanCase{"tpsp/ag_gemm", "commfuse:order=direct:m=2", 4},
    PlanCase{"tpsp/mlp", "sliced:n=2:axis=tokens", 3},
    PlanCase{"tpsp/mlp", "commfuse:order=ring:m=2:accumulate=epilogue", 3},
    PlanCase{"tpsp/mlp", "commfuse:order=ring:m=1:accumulate=add", 4},
    PlanCase{"tpsp/mlp", "commfuse:order=direct:m=2:accumulate=once", 3},
    PlanCase{"tpsp/attention", "commfuse:order=ring:m=2:accumulate=epilogue", 3},
    PlanCase{"dp/zero3", "sliced:n=2:axis=tokens", 3},
    PlanCase{"dp/zero3", "commfuse:order=ring:m=2", 3},
    PlanCase{"dp/zero2", "sliced:n=2:axis=tokens", 3},
    PlanCase{"dp/zero2", "commfuse:order=ring:m=2:accumulate=epilogue", 3},
};

/// Hidden is divided by 3 and 4 ranks.
Shape shape_for(std::int32_t ranks) {
  return {.hidden = 12,
          .ffn = 8 * ranks,
          .heads = ranks,
          .kv_heads = ranks,
          .head_dim = 8,
          .activation = Activation::relu,
          .causal = true,
          .tokens = 12 * ranks,
          .dtype = DType::f32};
}

/// A workload with sound plans and the data of all seeds.
class Specimen {
 public:
  explicit Specimen(const PlanCase& which)
      : name_(fmt::format("{} {} on {} ranks", which.workload, which.implementation, which.ranks)),
        workload_(
            find_workloads(which.workload).front()->build(shape_for(which.ranks), which.ranks)),
        plans_(build_plans(make_implementation(which.implementation, workload_), workload_)) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      data_.emplace_back(workload_, Portion::schedule, Source{seed + 1, DataMode::exact});
    }
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Original original() const { return {workload_, plans_}; }

  /// What verify() says; empty if it finds nothing.
  [[nodiscard]] std::string verdict(const std::vector<Plan>& plans) const {
    try {
      verify(plans, workload_);
    } catch (const PlanError& error) {
      return error.what();
    }
    return "";
  }

  /// What the reference executor says; empty if 20 seeds are right.
  [[nodiscard]] std::string outcome(const std::vector<Plan>& plans) const {
    try {
      ReferenceExecutor executor(plans);
      ReferenceMemory memory(plans);
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        data_[seed].load(memory);
        executor.run(memory, seed);
        if (auto mismatch = data_[seed].first_mismatch(memory, executor)) return *mismatch;
      }
    } catch (const ExecutionError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::string name_;
  Workload workload_;
  std::vector<Plan> plans_;
  std::vector<CaseData> data_;
};

const std::vector<Specimen>& specimens() {
  static const std::vector<Specimen> all = [] {
    std::vector<Specimen> made;
    for (const PlanCase& which : kPlanCases) made.emplace_back(which);
    return made;
  }();
  return all;
}

/// "op 7" or "rank 2": the word and a number.
bool names_a(std::string_view message, std::string_view word) {
  const std::string wanted = std::string(word) + " ";
  for (std::size_t at = message.find(wanted); at != std::string_view::npos;
       at = message.find(wanted, at + 1)) {
    const std::size_t digit = at + wanted.size();
    if (digit < message.size() && std::isdigit(static_cast<unsigned char>(message[digit]))) {
      return true;
    }
  }
  return false;
}

bool names_op_rank_and_view(std::string_view message, const std::vector<Plan>& plans) {
  const auto names_tensor = [&](const Tensor& tensor) {
    return message.find(tensor.name + "[") != std::string_view::npos;
  };
  return names_a(message, "op") && names_a(message, "rank") &&
         std::ranges::any_of(plans.front().tensors, names_tensor);
}

struct Row {
  std::string kind;
  std::size_t mutants = 0;
  std::size_t by_verify = 0;
  std::size_t by_executor = 0;
  std::size_t by_executor_alone = 0;
  std::size_t harmless = 0;
  std::size_t survived = 0;
};

class Mutation : public testing::TestWithParam<MutationKind> {
 protected:
  static void TearDownTestSuite() {
    fmt::print("{:<32} {:>8} {:>8} {:>9} {:>14} {:>9} {:>9}\n", "damage", "mutants", "verify",
               "executor", "executor alone", "harmless", "survived");
    for (const Row& row : rows()) {
      fmt::print("{:<32} {:>8} {:>8} {:>9} {:>14} {:>9} {:>9}\n", row.kind, row.mutants,
                 row.by_verify, row.by_executor, row.by_executor_alone, row.harmless, row.survived);
    }
  }
  static std::vector<Row>& rows() {
    static std::vector<Row> rows;
    return rows;
  }
};

void judge(const Specimen& specimen, const Mutant& mutant, Row& row) {
  ++row.mutants;
  const std::string verdict = specimen.verdict(mutant.plans);
  const std::string outcome = specimen.outcome(mutant.plans);
  for (const std::string& message : {verdict, outcome}) {
    EXPECT_TRUE(message.empty() || names_op_rank_and_view(message, mutant.plans))
        << specimen.name() << ", " << mutant.damage << ":\n"
        << message;
  }
  row.by_verify += !verdict.empty();
  row.by_executor += !outcome.empty();
  row.by_executor_alone += verdict.empty() && !outcome.empty();
  if (!verdict.empty() || !outcome.empty()) return;
  const std::string harm = hazard(mutant.plans);
  ++(harm.empty() ? row.harmless : row.survived);
  EXPECT_EQ(harm, "") << specimen.name() << ", " << mutant.damage << " was not noticed";
}

TEST_P(Mutation, is_noticed_unless_harmless) {
  Row row{.kind = std::string(GetParam().name)};
  for (const Specimen& specimen : specimens()) {
    GetParam().each(specimen.original(),
                    [&](const Mutant& mutant) { judge(specimen, mutant, row); });
  }
  rows().push_back(row);
  EXPECT_GT(row.mutants, 0U);
  EXPECT_EQ(row.survived, 0U);
  if (GetParam().harmless_where.empty()) {
    EXPECT_EQ(row.harmless, 0U);
  }
}

std::string test_name(const testing::TestParamInfo<MutationKind>& info) {
  std::string name(info.param.name);
  std::erase(name, ',');
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(kinds, Mutation,
                         testing::ValuesIn(mutation_kinds().begin(), mutation_kinds().end()),
                         test_name);

TEST(mutation, sound_plans_pass_every_judge) {
  for (const Specimen& specimen : specimens()) {
    const std::vector<Plan> plans(specimen.original().plans.begin(),
                                  specimen.original().plans.end());
    EXPECT_EQ(specimen.verdict(plans), "") << specimen.name();
    EXPECT_EQ(specimen.outcome(plans), "") << specimen.name();
    EXPECT_EQ(hazard(plans), "") << specimen.name();
  }
}

}  // namespace
}  // namespace commfuse
