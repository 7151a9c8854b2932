// SPDX-License-Identifier: Apache-2.0
// The fake CUPTI end to end: a small run of two ranks on the fakes, whose records the parser reads
// and the rules of a trace judge; and what happens when something goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "harness/cuda/activity_parser.h"
#include "harness/cuda/device_trace.h"
#include "tests/fakecuda/fake_cupti.h"
#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/machine.h"

namespace commfuse::fake {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What the client of CUPTI was given.
struct Collected {
  std::vector<std::unique_ptr<std::uint64_t[]>> memory;
  std::vector<std::span<std::byte>> buffers;
};

Collected& collected() {
  static Collected all;
  return all;
}

constexpr std::size_t kWords = 256;  // small: a run fills several

void request(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  collected().memory.push_back(std::make_unique<std::uint64_t[]>(kWords));
  *buffer = reinterpret_cast<std::uint8_t*>(collected().memory.back().get());
  *size = kWords * sizeof(std::uint64_t);
  *most_records = 0;
}

void complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  collected().buffers.emplace_back(reinterpret_cast<std::byte*>(buffer), valid);
}

/// What a test changes in the run.
struct Changes {
  FakeCuptiOptions options;
  bool driver_calls = true;  // recorded: NCCL launches by them
  bool sync = true;          // before the flush
  std::uint32_t flush = CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
  bool lost_id = false;  // rank 1 pushes none for its copy
};

struct Traced {
  Verdict verdict;
  ActivityLog log;
  DeviceTrace trace;
};

std::uint64_t id_of(std::int32_t rank, std::uint64_t op) {
  return static_cast<std::uint64_t>(rank) * 100 + op;
}

std::vector<ExpectedWork> expected_works() {
  std::vector<ExpectedWork> works;
  for (const std::int32_t rank : {0, 1}) {
    works.push_back({id_of(rank, 1), WorkKind::sentinel, 1, 1});
    works.push_back({id_of(rank, 2), WorkKind::compute, 1, kAnyNumber});
    works.push_back({id_of(rank, 3), WorkKind::transfer, 1, 1});
    works.push_back({id_of(rank, 4), WorkKind::transfer, 1, 1});
    works.push_back({id_of(rank, 5), WorkKind::copy, 1, 1});
  }
  return works;
}

/// A rank's operations, with its id around each.
class TracedRank {
 public:
  TracedRank(const CuptiFunctions& cupti, const Changes& changes, std::int32_t rank,
             ncclComm_t comm)
      : cupti_(cupti), changes_(changes), rank_(rank), comm_(comm) {}

  void run() {
    with_id(1, [&] { launch(LaunchKind::kernel, "sentinel", {source_, 8}); });
    with_id(2, [&] {
      launch(LaunchKind::kernel, "gemm", {source_, 32});
      launch(LaunchKind::kernel, "reduction", {source_, 32});
    });
    with_id(3, [&] { exchange(); });
    with_id(4, [&] { launch(LaunchKind::peer_copy, "", {source_, 32}); });
    with_id(changes_.lost_id && rank_ == 1 ? 99 : 5, [&] {
      launch(LaunchKind::copy_within_device, "", {source_, 16});
    });
    with_id(6, [&] { launch(LaunchKind::memset, "", {target_, 64}); });
  }

 private:
  void with_id(std::uint64_t op, const std::function<void()>& body) {
    const bool push = op != 99;
    const auto kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    if (push) {
      EXPECT_EQ(cupti_.push_external_correlation_id(kind, id_of(rank_, op)), CUPTI_SUCCESS);
    }
    body();
    std::uint64_t last = 0;
    if (push) {
      EXPECT_EQ(cupti_.pop_external_correlation_id(kind, &last), CUPTI_SUCCESS);
      EXPECT_EQ(last, id_of(rank_, op));
    }
  }

  void launch(LaunchKind kind, const char* name, const Range& range) {
    const OpId op = machine_.work(stream_, {name, {}, {range}, 1000, {}});
    note_launch(op, kind, name, kind == LaunchKind::kernel ? 0 : range.bytes);
  }

  void exchange() {
    ncclGroupStart();
    ncclSend(source_, 8, ncclFloat32, 1 - rank_, comm_, handle_of(stream_));
    ncclRecv(target_, 8, ncclFloat32, 1 - rank_, comm_, handle_of(stream_));
    ncclGroupEnd();
  }

  const CuptiFunctions& cupti_;
  const Changes& changes_;
  std::int32_t rank_;
  ncclComm_t comm_;
  Machine& machine_ = Machine::current();
  StreamId stream_ = machine_.create_stream("stream");
  std::byte* source_ = machine_.allocate(64, "source");
  std::byte* target_ = machine_.allocate(64, "target");
};

void start(const CuptiFunctions& cupti, const Changes& changes) {
  CUpti_SubscriberHandle subscriber = nullptr;
  EXPECT_EQ(cupti.subscribe(&subscriber, nullptr, nullptr), CUPTI_SUCCESS);
  EXPECT_EQ(cupti.activity_register_callbacks(request, complete), CUPTI_SUCCESS);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME,
        CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION}) {
    EXPECT_EQ(cupti.activity_enable(kind), CUPTI_SUCCESS);
  }
  if (changes.driver_calls) cupti.activity_enable_driver_api(FakeCupti::kDriverLaunch, 1);
}

void finish(const CuptiFunctions& cupti, const Changes& changes, ActivityLog& log) {
  EXPECT_EQ(cupti.activity_flush_all(changes.flush), CUPTI_SUCCESS);
  std::size_t dropped = 0;
  const bool read = cupti.activity_get_num_dropped_records(nullptr, 0, &dropped) == CUPTI_SUCCESS;
  log.dropped.reset();
  if (read) log.dropped = static_cast<std::int64_t>(dropped);
  std::size_t again = 1;
  if (read) cupti.activity_get_num_dropped_records(nullptr, 0, &again);
  EXPECT_EQ(again, read ? 0U : 1U);
}

Traced run_traced(const Changes& changes, std::uint64_t seed) {
  collected() = {};
  FakeCupti fake(changes.options);
  const CuptiFunctions cupti = FakeCupti::functions();
  Machine machine({seed});
  ncclUniqueId id{};
  Traced traced;
  traced.verdict = machine.run(2, [&](std::int32_t rank) {
    if (rank == 0) start(cupti, changes);
    if (rank == 0) ncclGetUniqueId(&id);
    machine.barrier();
    ncclComm_t comm = nullptr;
    ncclCommInitRank(&comm, 2, id, rank);
    TracedRank(cupti, changes, rank, comm).run();
    if (changes.sync) machine.synchronise_device(rank);
    machine.barrier();
    if (rank == 0) finish(cupti, changes, traced.log);
  });
  for (const std::span<std::byte> buffer : collected().buffers) {
    parse_activities(CuptiLibrary(cupti), buffer, traced.log);
  }
  const std::vector<ExpectedWork> expected = expected_works();
  traced.trace = examine(traced.log, expected, 0);
  return traced;
}

TEST(CuptiTrace, ARunOfTheFakesIsATraceThatCounts) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Traced traced = run_traced({}, seed);
    EXPECT_TRUE(traced.verdict.ok()) << traced.verdict.message;
    EXPECT_EQ(traced.trace.reason, "");
    EXPECT_TRUE(traced.trace.unattributed.empty());
    EXPECT_EQ(traced.trace.work.size(), 10U);  // without sentinels and memsets
    EXPECT_GT(collected().buffers.size(), 1U);
    EXPECT_EQ(traced.log.activities.size(), 14U);
    EXPECT_EQ(traced.log.launches.size(), 14U);
  }
}

TEST(CuptiTrace, RecordsSayWhatWasLaunched) {
  const Traced traced = run_traced({}, 1);
  std::vector<const Activity*> of_rank_1(7);
  for (const DeviceWork& work : traced.trace.work) {
    if (work.id > 100) of_rank_1.at(work.id % 100) = &work.activity;
  }
  ASSERT_NE(of_rank_1.at(2), nullptr);
  EXPECT_EQ(of_rank_1.at(2)->name, "reduction");  // the later one of two
  EXPECT_EQ(of_rank_1.at(2)->end_ns - of_rank_1.at(2)->begin_ns, 1000);
  EXPECT_GE(of_rank_1.at(2)->begin_ns, FakeCupti::kEpoch_ns);
  EXPECT_EQ(of_rank_1.at(2)->device, 1U);
  EXPECT_EQ(of_rank_1.at(3)->name, "ncclDevKernel_SendRecv");
  EXPECT_EQ(of_rank_1.at(3)->stream, of_rank_1.at(2)->stream);
  EXPECT_EQ(of_rank_1.at(4)->kind, ActivityKind::peer_copy);
  EXPECT_EQ(of_rank_1.at(4)->bytes, 32);
  EXPECT_TRUE(of_rank_1.at(4)->copy_engine);
  EXPECT_EQ(of_rank_1.at(5)->kind, ActivityKind::copy);
  EXPECT_TRUE(of_rank_1.at(5)->within_device);
  Changes changes;
  changes.options.copies_use_multiprocessors = true;
  for (const DeviceWork& work : run_traced(changes, 1).trace.work) {
    EXPECT_FALSE(work.activity.copy_engine);
  }
}

void expect_reason(const Changes& changes, const char* part) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_THAT(run_traced(changes, seed).trace.reason, HasSubstr(part));
  }
}

TEST(CuptiTrace, WhatGoesWrongOnRequestIsTheReason) {
  Changes changes;
  changes.options.dropped = 2;
  expect_reason(changes, "2 records were dropped");
  changes.options = {};
  changes.options.dropped_count_unreadable = true;
  expect_reason(changes, "not known whether records were dropped");
  changes.options = {};
  changes.options.zero_time = 1;
  expect_reason(changes, "1 records have no time");
  changes.options = {};
  changes.options.reversed = 3;
  expect_reason(changes, "3 records end before they begin");
}

TEST(CuptiTrace, CallsOfTheDriverCarryIdsOnlyIfAskedFor) {
  Changes changes;
  changes.driver_calls = false;
  expect_reason(changes, "op 3 left 0 activities");
  EXPECT_EQ(run_traced(changes, 0).trace.unattributed.size(), 2U);
}

TEST(CuptiTrace, AnOperationWithoutAnIdIsUnattributed) {
  Changes changes;
  changes.lost_id = true;
  const Traced traced = run_traced(changes, 0);
  EXPECT_THAT(traced.trace.reason, HasSubstr("op 105 left 0 activities"));
  EXPECT_EQ(traced.trace.unattributed.size(), 1U);
}

/// A kernel that cannot run before the flush.
ActivityLog flush_unfinished(std::uint32_t flag) {
  collected() = {};
  FakeCupti fake;
  const CuptiFunctions cupti = FakeCupti::functions();
  Machine machine({0});
  ActivityLog log;
  const Verdict verdict = machine.run(1, [&](std::int32_t) {
    start(cupti, {});
    const StreamId stream = machine.create_stream("stream");
    const StreamId other = machine.create_stream("other");
    std::byte* counter = machine.allocate(4, "counter");
    machine.host_work(
        {"zero", {}, {{counter, 4}}, 0, [=] { *reinterpret_cast<std::uint32_t*>(counter) = 0; }});
    machine.wait_value(stream, counter, 1);
    note_launch(machine.work(stream, {"late", {}, {}, 10, {}}), LaunchKind::kernel, "late", 0);
    cupti.activity_flush_all(flag);
    machine.write_value(other, counter, 1);
    machine.synchronise_device(0);
    cupti.activity_flush_all(flag);
  });
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  for (const std::span<std::byte> buffer : collected().buffers) {
    parse_activities(CuptiLibrary(cupti), buffer, log);
  }
  return log;
}

TEST(CuptiTrace, AForcedFlushHandsOutWhatRunsForGood) {
  const ActivityLog forced = flush_unfinished(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  EXPECT_EQ(forced.without_time, 1);
  EXPECT_TRUE(forced.activities.empty());
  const ActivityLog patient = flush_unfinished(0);
  EXPECT_EQ(patient.without_time, 0);
  EXPECT_EQ(patient.activities.size(), 1U);
}

}  // namespace
}  // namespace commfuse::fake
