// SPDX-License-Identifier: Apache-2.0
// Every implementation with every legal parameter, on every workload, on 1 to 8 ranks, under an
// adversarial scheduler and with new data for every seed, against the oracle. What is counted is
// printed at the end.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "impls/implementation.h"
#include "impls/transform.h"
#include "impls/verify.h"
#include "suite/workload.h"
#include "tests/conformance/case_data.h"
#include "tests/conformance/conformance_cases.h"
#include "tests/conformance/reference_executor.h"

namespace commfuse {
namespace {

constexpr std::array<std::int32_t, 7> kRanks{1, 2, 3, 4, 5, 7, 8};

constexpr std::uint64_t kSeeds = 20;

/// 20, or fewer where COMMFUSE_CONFORMANCE_SEEDS says so (under sanitizers).
std::uint64_t seeds() {
  static const std::uint64_t count = [] {
    const char* text = std::getenv("COMMFUSE_CONFORMANCE_SEEDS");
    const std::uint64_t wanted = text == nullptr ? kSeeds : std::strtoull(text, nullptr, 10);
    return std::clamp<std::uint64_t>(wanted, 1, kSeeds);
  }();
  return count;
}

/// The dtype of a seed, as an index of kDTypes. The executor takes its mode and way to start from
/// the three lowest bits; the fourth is mixed in here, so that four seeds meet fp32 and bf16 in
/// both ways to start, and sixteen every combination. What a plan does is the same in fp16: the
/// last four seeds, which have every mode, are enough.
std::size_t dtype_of(std::uint64_t seed) { return seed < 16 ? (seed >> 1U ^ seed >> 3U) & 1U : 2; }

/// What this process has run.
struct Tally {
  std::set<std::string> cases;
  std::set<std::string> skipped;  // on some number of ranks
  std::size_t subjects = 0;       // cases, each on every number of ranks that it can be cut for
  std::size_t exact_runs = 0;
  std::size_t bounded_runs = 0;

  [[nodiscard]] std::size_t runs() const { return exact_runs + bounded_runs; }
};
Tally& tally() {
  static Tally tally;
  return tally;
}

/// One implementation on one workload, made ready to run.
class Subject {
 public:
  Subject(const Implementation& implementation, const Workload& workload)
      : portion_(implementation.portion),
        plans_(build_plans(implementation, workload)),
        executor_((verify(plans_, workload), plans_)),
        memory_(plans_) {}

  /// The first difference from the oracle; empty if there is none.
  std::string run(const CaseData& data, std::uint64_t seed) {
    data.load(memory_);
    executor_.run(memory_, seed);
    return data.first_mismatch(memory_, executor_).value_or("");
  }

  /// The same compute again on what the last run received, after everything that it computes was
  /// poisoned.
  std::string run_quiet(const CaseData& data, const Workload& workload, std::uint64_t seed) {
    std::vector<Plan> quiet;
    for (const Plan& plan : plans_) quiet.push_back(without_communication(plan));
    verify(quiet, workload);
    for (const Plan& plan : quiet) {
      for (const Op& op : plan.ops) {
        for (const View& view : writes(compute_of(op).value())) memory_.poison(plan.rank, view);
      }
    }
    ReferenceExecutor executor(quiet);
    executor.run(memory_, seed);
    return data.first_mismatch(memory_, executor).value_or("");
  }

  /// Every output of every rank, as bits.
  [[nodiscard]] std::vector<std::uint64_t> output_bits(const Workload& workload) const {
    std::vector<std::uint64_t> bits;
    for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
      for (const View& view : required_outputs(workload, portion_)) {
        for (const double value : memory_.read(rank, view)) {
          bits.push_back(std::bit_cast<std::uint64_t>(value));
        }
      }
    }
    return bits;
  }

 private:
  Portion portion_;
  std::vector<Plan> plans_;
  ReferenceExecutor executor_;
  ReferenceMemory memory_;
};

/// All members of a family on one workload and number of ranks.
class Bench {
 public:
  Bench(const ImplementationFamily& family, const ShapeCase& shape, std::int32_t ranks)
      : shape_(shape), ranks_(ranks), entry_(*find_workloads(shape.workload).front()) {
    for (const DType dtype : kDTypes) {
      workloads_.push_back(entry_.build(shape_of(shape, ranks, dtype), ranks));
    }
    portion_ = make_implementation(family.members.front().spec, workloads_.front()).portion;
    for (const ImplementationCase& member : family.members) add(member);
  }

  void agree_with_the_oracle() {
    for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
      const CaseData data(workload(seed), portion_, {.seed = seed + 1, .mode = DataMode::exact});
      for (auto& [spec, by_dtype] : subjects_) {
        const std::string where = fmt::format("{}, seed {}", spec, seed);
        Subject& subject = *by_dtype[dtype_of(seed)];
        ASSERT_EQ(subject.run(data, seed), "") << where;
        ++(data.exact() ? tally().exact_runs : tally().bounded_runs);
        if (seed % 8 == 0) {
          ASSERT_EQ(subject.run_quiet(data, workload(seed), seed), "")
              << where << ", without its communication";
        }
      }
    }
  }

  void repeat_bit_for_bit_on_random_data() {
    for (const std::uint64_t seed : {1U, 2U, 16U}) {  // one of each dtype
      const CaseData data(workload(seed), portion_, {.seed = seed, .mode = DataMode::random});
      for (auto& [spec, by_dtype] : subjects_) {
        Subject& subject = *by_dtype[dtype_of(seed)];
        ASSERT_EQ(subject.run(data, seed), "") << spec << ", random data";
        const std::vector<std::uint64_t> once = subject.output_bits(workload(seed));
        ASSERT_EQ(subject.run(data, seed + 1), "") << spec << ", random data";
        ASSERT_EQ(subject.output_bits(workload(seed)), once) << spec;
      }
    }
  }

 private:
  void add(const ImplementationCase& member) {
    // Parameters that a workload has no use for are not in the resolved name: the same case again.
    const std::string resolved = make_implementation(member.spec, workloads_.front()).name;
    const std::string name = fmt::format("{} on {}", resolved, shape_.name);
    if (subjects_.contains(resolved)) return;
    for (const Workload& workload : workloads_) {
      const Implementation implementation = make_implementation(member.spec, workload);
      const std::string reason = unsupported(implementation, workload);
      ASSERT_EQ(reason.empty(), divides(member, shape_, ranks_)) << name << ": " << reason;
      if (!reason.empty()) {
        tally().skipped.insert(name);
        return;
      }
      subjects_[resolved].push_back(std::make_unique<Subject>(implementation, workload));
    }
    tally().cases.insert(name);
    ++tally().subjects;
  }

  [[nodiscard]] const Workload& workload(std::uint64_t seed) const {
    return workloads_[dtype_of(seed)];
  }

  const ShapeCase& shape_;
  std::int32_t ranks_;
  const WorkloadEntry& entry_;
  Portion portion_ = Portion::schedule;
  std::vector<Workload> workloads_;  // one per dtype
  std::map<std::string, std::vector<std::unique_ptr<Subject>>> subjects_;
};

/// One implementation family on one shape, on all numbers of ranks.
class Conformance : public testing::Test {
 public:
  Conformance(const ImplementationFamily& family, const ShapeCase& shape)
      : family_(family), shape_(shape) {}

  void TestBody() override {
    for (const std::int32_t ranks : kRanks) {
      SCOPED_TRACE(fmt::format("{} ranks", ranks));
      Bench bench(family_, shape_, ranks);
      if (!HasFailure()) bench.agree_with_the_oracle();
      if (!HasFailure()) bench.repeat_bit_for_bit_on_random_data();
      if (HasFailure()) return;
    }
  }

 private:
  const ImplementationFamily& family_;
  const ShapeCase& shape_;
};

/// conformance.<implementation>.<shape>, one for each pair of the two tables.
void register_all() {
  for (const ImplementationFamily& family : implementation_families()) {
    const std::string suite = fmt::format("conformance.{}", family.name);
    for (const ShapeCase& shape : shape_cases()) {
      testing::RegisterTest(suite.c_str(), std::string(shape.name).c_str(), nullptr, nullptr,
                            __FILE__, __LINE__,
                            [&family, &shape] { return new Conformance(family, shape); });
    }
  }
}

/// Prints what was run; false if it is not every case on all ranks with all seeds.
bool print_tally() {
  const Tally& done = tally();
  if (done.cases.empty()) return true;
  if (done.runs() != done.subjects * seeds()) {
    fmt::print(stderr, "conformance: {} cases make {} runs, which do not add up\n",
               done.cases.size(), done.runs());
    return false;
  }
  std::string ranks;
  for (const std::int32_t rank : kRanks)
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  fmt::print(
      "conformance: {} cases (implementations x workloads x shapes) on ranks {{{}}} x {} seeds = "
      "{} "
      "runs, all equal ({} bit for bit, {} within the oracle's bound); {} cases that do not divide "
      "skipped, each as expected\n",
      done.cases.size(), ranks, seeds(), done.runs(), done.exact_runs, done.bounded_runs,
      done.skipped.size());
  return true;
}

/// So that no rule skips more than it should: the pairs of the two tables, counted by hand for one
/// rank.
TEST(conformance_cases, pairs_that_do_not_divide) {
  std::size_t count = 0;
  for (const ImplementationFamily& family : implementation_families()) {
    for (const ImplementationCase& member : family.members) {
      count += static_cast<std::size_t>(std::ranges::count_if(
          shape_cases(), [&](const ShapeCase& shape) { return !divides(member, shape, 1); }));
    }
  }
  EXPECT_EQ(count, 304U);
}

TEST(conformance_cases, cover_every_implementation_and_workload) {
  std::set<std::string, std::less<>> listed;
  std::set<std::string, std::less<>> tested;
  for (const ImplementationEntry& entry : implementations()) listed.emplace(entry.name);
  for (const ImplementationFamily& family : implementation_families()) tested.emplace(family.name);
  EXPECT_EQ(tested, listed);
  listed.clear();
  tested.clear();
  for (const WorkloadEntry& entry : workloads()) listed.insert(selector_of(entry));
  for (const ShapeCase& shape : shape_cases()) tested.emplace(shape.workload);
  EXPECT_EQ(tested, listed);
}

TEST(conformance_cases, few_seeds_meet_many_combinations) {
  std::set<std::tuple<std::size_t, bool>> of_four;
  std::set<std::tuple<std::size_t, bool, std::uint64_t>> of_sixteen;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const bool grouped = ReferenceExecutor::starts_as_groups(seed);
    if (seed < 4) of_four.emplace(dtype_of(seed), grouped);
    of_sixteen.emplace(dtype_of(seed), grouped, seed % 4);  // the adversary's mode
  }
  EXPECT_EQ(of_four.size(), 4U);
  EXPECT_EQ(of_sixteen.size(), 16U);
}

}  // namespace
}  // namespace commfuse

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  commfuse::register_all();
  const int result = RUN_ALL_TESTS();
  if (result != 0) return result;
  return commfuse::print_tally() ? 0 : 1;
}
