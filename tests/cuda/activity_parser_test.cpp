// SPDX-License-Identifier: Apache-2.0
// Buffers made by hand, decoded by the real CUPTI, which needs no driver for that.
#include "harness/cuda/activity_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <new>

#include "harness/cuda/cupti_records.h"

namespace commfuse {
namespace {

/// Records one after the other in 8-byte aligned memory.
class Buffer {
 public:
  template <class Record>
  void add(const Record& record) {
    static_assert(sizeof(Record) % 8 == 0);
    ASSERT_LE(size_ + sizeof(Record), kBytes);
    std::memcpy(bytes_ + size_, &record, sizeof record);
    size_ += sizeof record;
  }
  std::span<std::byte> bytes() { return {bytes_, size_}; }

 private:
  static constexpr std::size_t kBytes = 1 << 16;
  alignas(8) std::byte bytes_[kBytes] = {};
  std::size_t size_ = 0;
};

KernelRecord kernel(std::uint64_t start, std::uint64_t end, std::uint32_t correlation) {
  KernelRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.start = start;
  record.end = end;
  record.deviceId = 1;
  record.streamId = 13;
  record.correlationId = correlation;
  record.name = "_Z8mykernelPfi";
  return record;
}

class ActivityParser : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cupti_.emplace(CuptiLibrary::open());
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  ActivityLog parse(Buffer& buffer) {
    ActivityLog log;
    parse_activities(*cupti_, buffer.bytes(), log);
    return log;
  }
  std::optional<CuptiLibrary> cupti_;
};

TEST_F(ActivityParser, ReadsEveryKindThatCounts) {
  Buffer buffer;
  ExternalRecord external{};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  external.externalId = 42;
  external.correlationId = 5;
  buffer.add(external);
  ApiRecord call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.start = 900;
  call.end = 950;
  call.correlationId = 5;
  buffer.add(call);
  buffer.add(kernel(1000, 1100, 5));
  CopyRecord copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  copy.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  copy.bytes = 4096;
  copy.start = 1200;
  copy.end = 1300;
  buffer.add(copy);
  PeerCopyRecord peer{};
  peer.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.bytes = 8192;
  peer.start = 1300;
  peer.end = 1400;
  buffer.add(peer);
  MemsetRecord memset{};
  memset.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  memset.start = 1400;
  memset.end = 1401;
  buffer.add(memset);

  const ActivityLog log = parse(buffer);
  EXPECT_EQ(log.unreadable, 0);
  ASSERT_EQ(log.activities.size(), 4U);
  EXPECT_EQ(log.activities[0].kind, ActivityKind::kernel);
  EXPECT_EQ(log.activities[0].name, "mykernel(float*, int)");
  EXPECT_EQ(log.activities[0].begin_ns, 1000);
  EXPECT_EQ(log.activities[0].end_ns, 1100);
  EXPECT_EQ(log.activities[0].device, 1U);
  EXPECT_EQ(log.activities[0].stream, 13U);
  EXPECT_EQ(log.activities[1].kind, ActivityKind::copy);
  EXPECT_TRUE(log.activities[1].within_device);
  EXPECT_TRUE(log.activities[1].copy_engine);
  EXPECT_EQ(log.activities[1].bytes, 4096);
  EXPECT_EQ(log.activities[2].kind, ActivityKind::peer_copy);
  EXPECT_FALSE(log.activities[2].copy_engine);
  EXPECT_EQ(log.activities[3].kind, ActivityKind::memset);
  EXPECT_EQ(log.external.at(5), 42U);
  EXPECT_EQ(log.launches.at(5).begin_ns, 900);
}

TEST_F(ActivityParser, case_E4_RecordsWithoutABelievableTimeAreCountedAndLeftOut) {
  Buffer buffer;
  buffer.add(kernel(0, 0, 1));
  buffer.add(kernel(1000, 0, 2));  // still running when the buffer was flushed
  buffer.add(kernel(1000, 999, 3));
  buffer.add(kernel(1000, 1000, 4));
  const ActivityLog log = parse(buffer);
  EXPECT_EQ(log.without_time, 2);
  EXPECT_EQ(log.reversed, 1);
  ASSERT_EQ(log.activities.size(), 1U);
  EXPECT_EQ(log.activities[0].correlation, 4U);
}

TEST_F(ActivityParser, OtherPeoplesCorrelationsAreNotOurs) {
  Buffer buffer;
  ExternalRecord external{};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_OPENACC;
  external.externalId = 42;
  external.correlationId = 5;
  buffer.add(external);
  EXPECT_TRUE(parse(buffer).external.empty());
}

TEST_F(ActivityParser, AnEmptyBufferIsNoError) {
  Buffer buffer;
  const ActivityLog log = parse(buffer);
  EXPECT_EQ(log.unreadable, 0);
  EXPECT_TRUE(log.activities.empty());
}

TEST(CuptiLibrary, WhatIsMissingIsNamed) {
  try {
    static_cast<void>(CuptiLibrary::open("libno-such-cupti.so"));
    FAIL() << "a library that is not there was opened";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("libno-such-cupti.so"));
  }
}

}  // namespace
}  // namespace commfuse
