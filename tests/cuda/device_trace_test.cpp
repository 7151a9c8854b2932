// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace commfuse {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kGemm = 7, kSend = 8, kFirst = 100, kLast = 101;

Activity kernel(std::uint32_t correlation, std::int64_t begin, std::int64_t end,
                std::uint32_t stream = 1) {
  Activity activity;
  activity.begin_ns = begin;
  activity.end_ns = end;
  activity.stream = stream;
  activity.correlation = correlation;
  activity.name = "kernel";
  return activity;
}

/// Sentinel, gemm, sentinel on stream 1; one copy on stream 2.
ActivityLog whole_log() {
  ActivityLog log;
  Activity copy = kernel(3, 1200, 1300, 2);
  copy.kind = ActivityKind::copy;
  copy.bytes = 64;
  log.activities = {kernel(1, 1000, 1010), kernel(2, 1100, 1200), copy, kernel(4, 1400, 1410)};
  log.external = {{1, kFirst}, {2, kGemm}, {3, kSend}, {4, kLast}};
  for (const Activity& activity : log.activities) {
    log.launches[activity.correlation] = {activity.begin_ns - 50, activity.begin_ns - 40};
  }
  return log;
}

std::vector<ExpectedWork> expected() {
  return {{kGemm, WorkKind::compute, 1, kAnyNumber},
          {kSend, WorkKind::transfer},
          {kFirst, WorkKind::sentinel},
          {kLast, WorkKind::sentinel}};
}

std::string reason(const ActivityLog& log) { return examine(log, expected(), 5).reason; }

TEST(DeviceTrace, JoinsActivitiesToOperations) {
  const DeviceTrace trace = examine(whole_log(), expected(), 5);
  EXPECT_EQ(trace.reason, "");
  ASSERT_EQ(trace.work.size(), 2U);  // sentinels are no work
  EXPECT_EQ(trace.work[0].id, kGemm);
  EXPECT_EQ(trace.work[0].kind, WorkKind::compute);
  EXPECT_EQ(trace.work[1].id, kSend);
  EXPECT_EQ(trace.work[1].activity.bytes, 64);
  EXPECT_TRUE(trace.unattributed.empty());
}

TEST(DeviceTrace, case_E2_DroppedOrUnknownCountsForNothing) {
  ActivityLog log = whole_log();
  log.dropped = 3;
  EXPECT_EQ(reason(log), "3 records were dropped");
  log.dropped.reset();
  EXPECT_THAT(reason(log), HasSubstr("not known"));
  EXPECT_TRUE(examine(log, expected(), 5).work.empty());
}

TEST(DeviceTrace, case_E4_ImpossibleTimesCountForNothing) {
  ActivityLog log = whole_log();
  log.without_time = 1;
  EXPECT_EQ(reason(log), "1 records have no time");
  log = whole_log();
  log.reversed = 2;
  EXPECT_EQ(reason(log), "2 records end before they begin");
  log = whole_log();
  log.unreadable = 1;
  EXPECT_EQ(reason(log), "1 buffers could not be read whole");
}

TEST(DeviceTrace, case_E3_AMissingSentinelOrKernelIsNoticed) {
  ActivityLog log = whole_log();
  log.activities.pop_back();
  EXPECT_EQ(reason(log), "sentinel 101 is missing");
  log = whole_log();
  log.activities.erase(log.activities.begin() + 1);
  EXPECT_EQ(reason(log), "op 7 left 0 activities, expected 1 or more");
  log = whole_log();
  log.activities.push_back(log.activities[2]);
  log.activities.back().begin_ns = log.activities.back().end_ns = 1350;
  EXPECT_EQ(reason(log), "op 8 left 2 activities, expected 1");
}

TEST(DeviceTrace, OverlapWithinAStreamIsImpossible) {
  ActivityLog log = whole_log();
  log.activities[1].end_ns = 1401;
  EXPECT_EQ(reason(log), "two activities overlap by 1 ns in stream 1 of device 0");
}

// Copies of a batch have no order; what follows them in the stream has.
TEST(DeviceTrace, CopiesOfOneBatchMayOverlap) {
  ActivityLog log = whole_log();
  Activity more = log.activities[2];
  more.begin_ns = 1210;
  more.end_ns = 1250;
  log.activities.push_back(more);
  std::vector<ExpectedWork> batch = expected();
  batch[1].most = kAnyNumber;
  EXPECT_EQ(examine(log, batch, 5).reason, "");
  EXPECT_EQ(examine(log, batch, 5).work.size(), 3U);
  Activity gemm = kernel(5, 1290, 1320, 2);
  log.activities.push_back(gemm);
  EXPECT_THAT(examine(log, batch, 5).reason, HasSubstr("overlap by 10 ns in stream 2"));
  batch[1].kind = WorkKind::compute;
  log.activities.pop_back();
  EXPECT_THAT(examine(log, batch, 5).reason, HasSubstr("overlap by 90 ns in stream 2"));
}

TEST(DeviceTrace, NothingBeginsBeforeItsLaunchByMoreThanTheClocksUncertainty) {
  ActivityLog log = whole_log();
  log.launches[2].begin_ns = 1105;
  EXPECT_EQ(reason(log), "");
  log.launches[2].begin_ns = 1106;
  EXPECT_EQ(reason(log), "an activity began 6 ns before it was launched");
}

TEST(DeviceTrace, case_D6_NamesContradictButDoNotClassify) {
  ActivityLog log = whole_log();
  log.activities[1].name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
  EXPECT_THAT(reason(log), HasSubstr("op 7 transfers nothing, and ran ncclDevKernel_SendRecv"));
}

TEST(DeviceTrace, WorkOfNobodyIsKeptApart) {
  ActivityLog log = whole_log();
  log.activities.push_back(kernel(9, 1500, 1510));
  const DeviceTrace trace = examine(log, expected(), 5);
  EXPECT_EQ(trace.reason, "");
  ASSERT_EQ(trace.unattributed.size(), 1U);
  EXPECT_EQ(trace.unattributed[0].correlation, 9U);
}

TEST(DeviceTrace, MemsetsCountNowhere) {
  ActivityLog log = whole_log();
  log.activities.push_back(kernel(10, 1500, 1510));
  log.activities.back().kind = ActivityKind::memset;
  const DeviceTrace trace = examine(log, expected(), 5);
  EXPECT_EQ(trace.work.size(), 2U);
  EXPECT_TRUE(trace.unattributed.empty());
}

}  // namespace
}  // namespace commfuse
