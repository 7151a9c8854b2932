// SPDX-License-Identifier: Apache-2.0
// Whole sessions in this process, ranks as threads; small shapes, so nothing here depends on speed.
#include "harness/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>

#include "harness/host/host_backend.h"
#include "harness/host/paced_transport.h"
#include "harness/record/record.h"
#include "harness/sim/cost_file.h"
#include "harness/world/thread_world.h"
#include "suite/error.h"

namespace commfuse {
namespace {

using ::testing::HasSubstr;

/// A file name in a fresh folder.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "commfuse-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string file(const char* name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

std::unique_ptr<Backend> host_backend() {
  return std::make_unique<HostBackend>(HostBackend::Transports{});
}

int session(std::int32_t ranks, std::vector<std::string> arguments,
            const MakeBackend& make_backend = host_backend) {
  for (const char* argument : {"--shape", "hidden=64,ffn=128,heads=8,kv_heads=4", "--tokens", "64",
                               "--repetitions", "3"}) {
    arguments.emplace_back(argument);
  }
  const Options options = parse_options(arguments);
  std::atomic<int> code{-1};
  run_thread_ranks(ranks, [&](World& world) {
    Watchdog watchdog(world.rank(), world.host(), std::chrono::seconds(100),
                      [&](int exit_code) { world.abort(exit_code); });
    code = run_session(world, options, make_backend, watchdog);
  });
  return code;
}

/// The host's, on a machine that something disturbs.
class DoubtfulBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "doubtful"; }
  std::unique_ptr<Executor> executor(World& group, const Workload& workload,
                                     std::string_view transport) override {
    return host_.executor(group, workload, transport);
  }
  [[nodiscard]] std::int64_t available_bytes() const override { return host_.available_bytes(); }
  [[nodiscard]] std::map<std::string, std::string> libraries() const override { return {}; }
  [[nodiscard]] std::int64_t cache_bytes() const override { return host_.cache_bytes(); }
  double measured_peak() override { return 1e9; }
  std::vector<std::string> doubts() override { return {"clocks: not locked"}; }

 private:
  HostBackend host_{HostBackend::Transports{}};
};

std::map<std::string, Record> by_impl(const std::string& file) {
  std::map<std::string, Record> records;
  for (Record& record : read_records(file)) records.emplace(record.impl, std::move(record));
  return records;
}

TEST(Session, MeasuresEveryRow) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  // Two ranks may have one core here: no link to calibrate against, and steady and isolated both
  // work.
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "paced needs two cores";
  EXPECT_EQ(session(2, {"--impl", "plain,commfuse", "--link", "unlimited", "--out", out}), kExitOk);
  auto records = by_impl(out);
  ASSERT_EQ(records.size(), 4U);
  for (const auto& [impl, record] : records) {
    EXPECT_EQ(record.outcome, Outcome::ok) << impl << record.reason;
    ASSERT_TRUE(record.check) << impl;
    EXPECT_EQ(record.check->wrong, 0) << impl;
    EXPECT_TRUE(record.check->bitwise) << impl;
    EXPECT_EQ(record.samples.max_over_ranks.size(), 3U) << impl;
    EXPECT_EQ(record.samples.per_rank.size(), 2U) << impl;
    EXPECT_GT(record.metrics.at("time").value, 0) << impl;
  }
  const Record& plain = records.at("plain");
  EXPECT_TRUE(plain.metrics.contains("exposed"));
  EXPECT_DOUBLE_EQ(plain.metrics.at("speedup_plain").value, 1);
}

// What a transport cannot do costs its own row, not the group.
TEST(Session, CollectivesOfNcclAreSkippedByTheHost) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(
      session(2, {"--check-only", "--impl", "plain:collective=symmetric,plain", "--out", out}),
      kExitOk);
  const auto records = by_impl(out);
  ASSERT_EQ(records.size(), 4U);
  for (const auto& [impl, record] : records) {
    const bool special = impl == "plain:collective=symmetric";
    EXPECT_EQ(record.outcome, special ? Outcome::skipped : Outcome::ok) << impl;
    EXPECT_EQ(record.reason, special ? "collective=symmetric belongs to transport nccl" : "");
  }
}

/// Carries the plans of one group only.
class RefusingTransport final : public Transport {
 public:
  [[nodiscard]] bool shares_memory() const override { return false; }
  void set_link(const LinkSpeed& /*link*/) override {}
  WireReport take_report() override { return {}; }
  std::unique_ptr<Channel> open(const Program& /*program*/,
                                std::span<const Storage> /*storages*/) override {
    throw Unsupported("no memory could be registered");
  }
};

// Ranks 2 and 3 are a group of their own: without an answer from them the others would go on.
TEST(Session, WhatIsRefusedToOneGroupOfAMeshIsSkippedByAll) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  const Options options = parse_options(
      {"--mesh", "tp=2,dp=2", "--on", "tp", "--check-only", "--impl", "plain", "--transport", "mpi",
       "--shape", "hidden=64,ffn=128,heads=8,kv_heads=4", "--tokens", "64", "--out", out});
  std::atomic<int> code{-1};
  run_thread_ranks(4, [&](World& world) {
    Watchdog watchdog(world.rank(), world.host(), std::chrono::seconds(100),
                      [&](int exit_code) { world.abort(exit_code); });
    const auto transport = [&world](World& group) -> std::unique_ptr<Transport> {
      if (world.rank() < 2) return std::make_unique<PacedTransport>(group);
      return std::make_unique<RefusingTransport>();
    };
    code = run_session(
        world, options,
        [&] {
          return std::make_unique<HostBackend>(HostBackend::Transports{{"mpi", transport}});
        },
        watchdog);
  });
  EXPECT_EQ(code, kExitOk);  // compute_only
  for (const auto& [impl, record] : by_impl(out)) {
    const bool communicates = impl != "compute_only";
    EXPECT_EQ(record.outcome, communicates ? Outcome::skipped : Outcome::ok) << impl;
    EXPECT_EQ(record.reason, communicates ? "no memory could be registered" : "") << impl;
  }
}

// Its transport cannot even be made there, for example since ranks of that group share a device.
TEST(Session, ATransportThatOneGroupOfAMeshLacksIsNobodys) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  const Options options = parse_options(
      {"--mesh", "tp=2,dp=2", "--on", "tp", "--check-only", "--impl", "plain", "--transport", "mpi",
       "--shape", "hidden=64,ffn=128,heads=8,kv_heads=4", "--tokens", "64", "--out", out});
  std::atomic<int> code{-1};
  run_thread_ranks(4, [&](World& world) {
    Watchdog watchdog(world.rank(), world.host(), std::chrono::seconds(10),
                      [&](int exit_code) { world.abort(exit_code); });
    const auto transport = [&world](World& group) -> std::unique_ptr<Transport> {
      if (world.rank() >= 2) throw Unsupported("ranks share a device");
      return std::make_unique<PacedTransport>(group);
    };
    code = run_session(
        world, options,
        [&] {
          return std::make_unique<HostBackend>(HostBackend::Transports{{"mpi", transport}});
        },
        watchdog);
  });
  EXPECT_EQ(code, kExitAllSkipped);
  for (const auto& [impl, record] : by_impl(out)) {
    EXPECT_EQ(record.outcome, Outcome::skipped) << impl;
    EXPECT_EQ(record.reason, "ranks share a device") << impl;
  }
}

TEST(Session, CaseB9DoubtsAreSaidAndRecorded) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  const Options options =
      parse_options({"--shape", "hidden=64,ffn=128,heads=8,kv_heads=4", "--tokens", "64",
                     "--repetitions", "3", "--impl", "plain", "--link", "unlimited", "--out", out});
  int code = -1;
  testing::internal::CaptureStderr();
  run_thread_ranks(1, [&](World& world) {
    Watchdog watchdog(world.rank(), world.host(), std::chrono::seconds(100),
                      [&](int exit_code) { world.abort(exit_code); });
    code = run_session(
        world, options, [] { return std::make_unique<DoubtfulBackend>(); }, watchdog);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("commfuse-bench: times are doubtful: clocks: not locked\n"));
  EXPECT_EQ(code, kExitOk);
  const Record plain = by_impl(out).at("plain");
  EXPECT_EQ(plain.environment["doubts"].dump(), R"(["clocks: not locked"])");
  EXPECT_FALSE(plain.details.contains("device_state"));  // nothing was read
}

/// Replayed rows are right, have a speed, and nothing in them is contention.
void expect_replayed(const std::string& file, std::size_t rows, std::size_t world_ranks) {
  const auto records = read_records(file);
  EXPECT_EQ(records.size(), rows);
  for (const Record& record : records) {
    EXPECT_EQ(record.outcome, Outcome::ok) << record.id << record.reason;
    EXPECT_EQ(record.clock, Clock::replayed) << record.id;
    EXPECT_EQ(record.transport, "put") << record.id;
    ASSERT_TRUE(record.check) << record.id;
    EXPECT_EQ(record.check->wrong, 0) << record.id;
    EXPECT_EQ(record.samples.per_rank.size(), world_ranks) << record.id;
    EXPECT_GT(record.metrics.at("time").value, 0) << record.id;
    EXPECT_EQ(record.details.at("preempted"), 0) << record.id;
    EXPECT_EQ(record.details.at("executor").at("replay"), "put") << record.id;
    const bool bound = record.impl == "compute_only" || record.impl == "comm_only";
    EXPECT_EQ(record.metrics.contains("contention"), !bound) << record.id;
    if (bound) continue;
    EXPECT_EQ(record.metrics.at("contention").value, 0) << record.id;
  }
}

TEST(Session, AReplayHasMoreRanksThanCores) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(8, {"--replay", "--workload", "tpsp/mlp,tpsp/attention,dp/zero2", "--impl",
                        "plain,sliced:n=2,commfuse:m=2", "--link", "1GB/s,2us", "--out", out}),
            kExitOk);
  expect_replayed(out, std::size_t{3} * 5, 8);
}

TEST(Session, AReplayCalibratesItsLink) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(4, {"--replay", "--impl", "plain", "--link", "auto:0.5", "--out", out}),
            kExitOk);
  expect_replayed(out, 3, 4);
  for (const Record& record : read_records(out)) {
    EXPECT_GT(record.details.at("link").at("bytes_per_second").get<double>(), 0);
  }
}

TEST(Session, AReplayOfAMesh) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(4, {"--replay", "--mesh", "tp=2,dp=2", "--on", "both", "--impl", "commfuse",
                        "--out", out}),
            kExitOk);
  expect_replayed(out, std::size_t{2} * 3, 4);
}

/// The host as a device that its ranks share.
class SharedDevice final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "host"; }
  std::unique_ptr<Executor> executor(World& group, const Workload& workload,
                                     std::string_view transport) override {
    return host_.executor(group, workload, transport);
  }
  [[nodiscard]] std::int64_t available_bytes() const override { return host_.available_bytes(); }
  [[nodiscard]] std::map<std::string, std::string> libraries() const override { return {}; }
  [[nodiscard]] std::int64_t cache_bytes() const override { return host_.cache_bytes(); }
  double measured_peak() override {
    most_at_once = std::max(most_at_once.load(), ++measuring);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --measuring;
    return 1e9;
  }

  inline static std::atomic<int> measuring{0};
  inline static std::atomic<int> most_at_once{0};

 private:
  HostBackend host_{HostBackend::Transports{}};
};

TEST(Session, RanksThatShareADeviceReplayWhatEachDoesAlone) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(
      session(4,
              {"--replay", "--mesh", "tp=2,dp=2", "--on", "tp", "--impl", "commfuse", "--out", out},
              [] { return std::make_unique<SharedDevice>(); }),
      kExitOk);
  EXPECT_EQ(SharedDevice::most_at_once, 1);
  expect_replayed(out, 3, 4);
  for (const Record& record : read_records(out)) {
    EXPECT_THAT(record.details.at("executor").at("op_times").get<std::string>(),
                HasSubstr("one rank at a time"));
  }
}

TEST(Session, AReplayReportsWrongResults) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(4, {"--replay", "--impl", "plain", "--fault", "corrupt:rank=1", "--out", out}),
            kExitWrong);
  const Record plain = by_impl(out).at("plain");
  EXPECT_EQ(plain.outcome, Outcome::wrong);
  EXPECT_TRUE(plain.metrics.empty());
}

TEST(Session, SteadyMode) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "paced needs two cores";
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(2, {"--mode", "steady", "--iterations", "4", "--workload", "tpsp/mlp", "--impl",
                        "plain,commfuse", "--link", "unlimited", "--out", out}),
            kExitOk);
  for (const auto& [impl, record] : by_impl(out))
    EXPECT_EQ(record.samples.max_over_ranks.size(), 12U) << impl;
}

TEST(Session, ChecksWithMoreRanksThanCores) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(4, {"--workload", "*", "--check-only", "--dtype", "fp32,bf16", "--out", out}),
            kExitOk);
  const auto records = read_records(out);
  EXPECT_EQ(records.size(), find_workloads("*").size() * 2 * 5);
  for (const Record& record : records) {
    EXPECT_EQ(record.outcome, Outcome::ok) << record.id << record.reason;
    EXPECT_TRUE(record.samples.max_over_ranks.empty());
  }
}

TEST(Session, CaseB10SetsOfBuffersTakeTurns) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(2, {"--cache", "rotate", "--check-only", "--out", out}), kExitOk);
  EXPECT_EQ(session(2, {"--check-only", "--impl", "plain", "--out", scratch.file("hot.jsonl")}),
            kExitOk);
  for (const Record& record : read_records(out)) {
    EXPECT_EQ(record.outcome, Outcome::ok) << record.id << record.reason;
    EXPECT_TRUE(record.id.ends_with("/mode:isolated/cache:rotate")) << record.id;
    EXPECT_EQ(record.details.at("cache").at("mode"), "rotate");
    EXPECT_EQ(record.details.at("cache").at("sets"), 2);
    EXPECT_GT(record.details.at("cache").at("bytes"), 0);
  }
  for (const Record& record : read_records(scratch.file("hot.jsonl"))) {
    EXPECT_TRUE(record.id.ends_with("/mode:isolated")) << record.id;
    EXPECT_EQ(record.details.at("cache").dump(), R"({"mode":"hot","sets":1})");
  }
}

/// The host with a cache that three sets of the shape of these tests exceed.
class SmallCache final : public Backend {
 public:
  static constexpr std::int64_t kBytes = 100'000;
  [[nodiscard]] std::string_view name() const override { return host_->name(); }
  std::unique_ptr<Executor> executor(World& group, const Workload& workload,
                                     std::string_view transport) override {
    ++executors_made;
    return host_->executor(group, workload, transport);
  }
  [[nodiscard]] std::int64_t cache_bytes() const override { return kBytes; }
  [[nodiscard]] std::int64_t available_bytes() const override { return available; }
  [[nodiscard]] std::map<std::string, std::string> libraries() const override { return {}; }
  double measured_peak() override { return 1e12; }

  inline static std::atomic<int> executors_made{0};
  inline static std::int64_t available = 0;

 private:
  std::unique_ptr<Backend> host_ = host_backend();
};

TEST(Session, CaseB10IsTimedWithAsManySetsAsExceedTheCache) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  SmallCache::executors_made = 0;
  EXPECT_EQ(session(1, {"--cache", "rotate", "--impl", "plain", "--out", out},
                    [] { return std::make_unique<SmallCache>(); }),
            kExitOk);
  for (const Record& record : read_records(out)) {
    EXPECT_EQ(record.outcome, Outcome::ok) << record.id << record.reason;
    EXPECT_EQ(record.samples.max_over_ranks.size(), 3U);
    EXPECT_EQ(record.details.at("cache").at("bytes"), SmallCache::kBytes);
    // X and W of 64 x 128, and the result of 64 x 64, in fp32: 80 KiB.
    EXPECT_EQ(record.details.at("cache").at("sets"), 3);
  }
  EXPECT_EQ(SmallCache::executors_made, 3);
}

TEST(Session, CaseB10AllSetsCountAsMemory) {
  const Scratch scratch;
  SmallCache::available = 200'000;  // for one set, not for three
  const auto small = [] { return std::make_unique<SmallCache>(); };
  const std::string cold = scratch.file("cold.jsonl");
  const std::string hot = scratch.file("hot.jsonl");
  EXPECT_EQ(session(1, {"--impl", "plain", "--out", hot}, small), kExitOk);
  EXPECT_EQ(session(1, {"--cache", "rotate", "--impl", "plain", "--out", cold}, small),
            kExitAllSkipped);
  SmallCache::available = 0;
  EXPECT_THAT(read_records(cold).front().reason, HasSubstr("of memory for all ranks"));
}

TEST(Session, CaseB10WhatFitsManyTimesIntoTheCacheIsNotTimedAsCold) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(1, {"--cache", "rotate", "--out", out}), kExitAllSkipped);
  for (const Record& record : read_records(out)) {
    EXPECT_THAT(record.reason, HasSubstr("--cache rotate needs "));
  }
}

TEST(Session, CaseC2AWrongResultHasNoSpeed) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(2, {"--impl", "plain", "--fault", "corrupt:rank=1", "--out", out}), kExitWrong);
  const auto records = by_impl(out);
  const Record& plain = records.at("plain");
  EXPECT_EQ(plain.outcome, Outcome::wrong);
  EXPECT_GT(plain.check->wrong, 0);
  EXPECT_THAT(plain.reason, HasSubstr("result["));
  EXPECT_TRUE(plain.samples.max_over_ranks.empty());
  EXPECT_TRUE(plain.metrics.empty());
}

TEST(Session, CaseC4SkippedRowsHaveTheConstraint) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(3, {"--check-only", "--out", out}), kExitAllSkipped);  // 64 tokens on 3 ranks
  for (const Record& record : read_records(out)) {
    EXPECT_EQ(record.outcome, Outcome::skipped);
    EXPECT_THAT(record.reason, HasSubstr("64"));
  }
}

TEST(Session, AnExistingFileIsNeverOverwritten) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  std::ofstream(out) << "precious\n";
  EXPECT_THROW(session(1, {"--check-only", "--out", out}), RankError);
  std::string line;
  std::getline(std::ifstream(out) >> std::ws, line);
  EXPECT_EQ(line, "precious");
}

TEST(Session, ResumeRunsTheRest) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(2, {"--check-only", "--impl", "plain", "--out", out}), kExitOk);
  EXPECT_EQ(read_records(out).size(), 3U);
  EXPECT_EQ(session(2, {"--check-only", "--impl", "plain,commfuse", "--out", out, "--resume"}),
            kExitOk);
  EXPECT_EQ(by_impl(out).size(), 4U);
  EXPECT_EQ(read_records(out).size(), 4U);
  EXPECT_EQ(session(2, {"--check-only", "--impl", "plain,commfuse", "--out", out, "--resume"}),
            kExitOk);
  EXPECT_EQ(read_records(out).size(), 4U);
}

TEST(Session, CostsAreOfOpsWithoutCommunicationBesideThem) {
  const Scratch scratch;
  const std::string costs = scratch.file("costs.json");
  const std::vector<std::string> replayed{
      "--replay", "--link", "2GB/s,20us", "--impl", "plain,commfuse:m=2", "--record-costs", costs};
  EXPECT_EQ(session(2, replayed), kExitOk);
  const CostFile file = read_costs(costs);
  EXPECT_EQ(file.clock, "thread CPU time");
  EXPECT_EQ(file.machine["backend"], "host");
  const OpKey whole{"gemm", "fp32 NT", {64, 64, 64}};
  ASSERT_TRUE(file.costs.contains(whole));
  // compute_only and the quiet run of plain: once in each of 3 repetitions, on 2 ranks.
  EXPECT_EQ(file.costs.at(whole).count, 2 * 3 * 2);
  for (const auto& [key, cost] : file.costs) EXPECT_GT(cost.ns, 0) << describe(key);
  EXPECT_THROW(session(2, replayed), RankError);
  auto resumed = replayed;
  resumed.emplace_back("--resume");
  EXPECT_EQ(session(2, resumed), kExitOk);
  EXPECT_EQ(read_costs(costs).costs.at(whole).count, 12) << "what is measured again replaces";
}

TEST(Session, MeshGroupsRunAtOnce) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(4, {"--mesh", "tp=2,dp=2", "--on", "tp", "--check-only", "--impl", "commfuse",
                        "--out", out}),
            kExitOk);
  for (const Record& record : read_records(out)) {
    EXPECT_EQ(record.ranks, 2);
    EXPECT_EQ(record.mesh, "tp=2,dp=2 on tp");
    EXPECT_EQ(record.outcome, Outcome::ok) << record.reason;
  }
}

TEST(Session, AWrongGroupOfAMeshIsReportedAsItIs) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(4, {"--mesh", "tp=2,dp=2", "--on", "tp", "--check-only", "--impl", "commfuse",
                        "--fault", "corrupt:rank=3", "--out", out}),
            kExitWrong);
  int wrong = 0;
  for (const auto& [impl, record] : by_impl(out)) {
    if (impl == "comm_only") continue;
    ++wrong;
    EXPECT_EQ(record.outcome, Outcome::wrong) << impl;
    EXPECT_GT(record.check->wrong, 0) << impl;
    EXPECT_THAT(record.reason, HasSubstr("first: rank 1 ")) << impl;
  }
  EXPECT_EQ(wrong, 2);
}

TEST(Session, AReferenceThatIsWrongIsNotLostToAFilter) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(2, {"--impl", "plain", "--benchmark_filter=impl:comm_only", "--fault",
                        "corrupt:rank=1", "--out", out}),
            kExitWrong);
  const auto records = by_impl(out);
  EXPECT_EQ(records.at("compute_only").outcome, Outcome::wrong);
  if (std::thread::hardware_concurrency() < 2) return;  // no core for every rank: skipped before
  EXPECT_EQ(records.at("comm_only").outcome, Outcome::skipped);
  EXPECT_THAT(records.at("comm_only").reason, HasSubstr("cannot be calibrated"));
}

TEST(Session, ResumingCountsWhatTheFileSays) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  const std::vector<std::string> checked{"--impl", "plain", "--check-only", "--out", out};
  auto resumed = checked;
  resumed.emplace_back("--resume");
  auto wrong = checked;
  wrong.insert(wrong.end(), {"--fault", "corrupt:rank=0"});
  EXPECT_EQ(session(2, wrong), kExitWrong);
  EXPECT_EQ(session(2, resumed), kExitWrong);
}

TEST(Session, CheckedCasesAreNotTakenForTimedOnes) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(1, {"--impl", "plain", "--check-only", "--out", out}), kExitOk);
  EXPECT_THROW(session(1, {"--impl", "plain", "--out", out, "--resume"}), RankError);
}

TEST(Session, SubGroupsLeaveTheOthersIdle) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  EXPECT_EQ(session(4, {"--ranks", "1,2,4", "--check-only", "--impl", "commfuse", "--out", out}),
            kExitOk);
  std::map<int, int> rows;
  for (const Record& record : read_records(out)) ++rows[record.ranks];
  EXPECT_EQ(rows, (std::map<int, int>{{1, 3}, {2, 3}, {4, 3}}));
}

TEST(Session, CasesWithoutEnoughCoresSayHowToGoOn) {
  const Scratch scratch;
  const std::string out = scratch.file("r.jsonl");
  const int ranks = 64;  // more than this machine has cores
  if (std::thread::hardware_concurrency() >= ranks) GTEST_SKIP() << "too many cores";
  EXPECT_EQ(session(ranks, {"--impl", "plain", "--out", out}), kExitAllSkipped);
  for (const Record& record : read_records(out)) EXPECT_THAT(record.reason, HasSubstr("core"));
}

}  // namespace
}  // namespace commfuse
