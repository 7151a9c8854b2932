// SPDX-License-Identifier: Apache-2.0
// The fake CUPTI: what its functions refuse, and what misuse of it ends a run.
#include "tests/fakecuda/fake_cupti.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/fakecuda/cupti_delivery.h"
#include "tests/fakecuda/machine.h"

namespace commfuse::fake {
namespace {

using testing::HasSubstr;
using Kind = Verdict::Kind;

Verdict run_with(const FakeCuptiOptions& options, std::int32_t ranks,
                 const std::function<void(const CuptiFunctions&, std::int32_t)>& body) {
  FakeCupti fake(options);
  const CuptiFunctions cupti = FakeCupti::functions();
  Machine machine({0});
  return machine.run(ranks, [&](std::int32_t rank) { body(cupti, rank); });
}

void expect_found(const char* part, const std::function<void(const CuptiFunctions&)>& body) {
  const Verdict verdict =
      run_with({}, 1, [&](const CuptiFunctions& cupti, std::int32_t) { body(cupti); });
  EXPECT_EQ(verdict.kind, Kind::host_error);
  EXPECT_THAT(verdict.message, HasSubstr(part));
}

TEST(FakeCupti, HasOneSubscriberPerProcess) {
  std::array<CUptiResult, 2> results{};
  const auto subscribe = [&](const CuptiFunctions& cupti, std::int32_t rank) {
    CUpti_SubscriberHandle subscriber = nullptr;
    results.at(static_cast<std::size_t>(rank)) = cupti.subscribe(&subscriber, nullptr, nullptr);
  };
  FakeCuptiOptions options;
  EXPECT_TRUE(run_with(options, 2, subscribe).ok());
  EXPECT_EQ(results[0] + results[1], CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  options.process_per_rank = true;
  EXPECT_TRUE(run_with(options, 2, subscribe).ok());
  EXPECT_EQ(results[0] + results[1], CUPTI_SUCCESS);
  options.other_client = true;
  EXPECT_TRUE(run_with(options, 1, subscribe).ok());
  EXPECT_EQ(results[0], CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
}

TEST(FakeCupti, AnotherMaySubscribeAfterTheEndOfTheFirst) {
  const Verdict verdict = run_with({}, 1, [](const CuptiFunctions& cupti, std::int32_t) {
    CUpti_SubscriberHandle subscriber = nullptr;
    EXPECT_EQ(cupti.unsubscribe(subscriber), CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(cupti.subscribe(&subscriber, nullptr, nullptr), CUPTI_SUCCESS);
    EXPECT_EQ(cupti.unsubscribe(subscriber), CUPTI_SUCCESS);
    EXPECT_EQ(cupti.subscribe(&subscriber, nullptr, nullptr), CUPTI_SUCCESS);
  });
  EXPECT_TRUE(verdict.ok());
}

std::uint64_t clock() { return 5'000'000; }

TEST(FakeCupti, TakesOneTimestampCallback) {
  expect_found("a second timestamp callback", [](const CuptiFunctions& cupti) {
    std::uint64_t before = 0;
    EXPECT_EQ(cupti.get_timestamp(&before), CUPTI_SUCCESS);
    EXPECT_GE(before, static_cast<std::uint64_t>(FakeCupti::kEpoch_ns));
    EXPECT_EQ(cupti.activity_register_timestamp_callback(clock), CUPTI_SUCCESS);
    std::uint64_t after = 0;
    EXPECT_EQ(cupti.get_timestamp(&after), CUPTI_SUCCESS);
    EXPECT_GE(after, clock());
    EXPECT_LT(after, clock() + 1000);
    EXPECT_EQ(cupti.activity_register_timestamp_callback(clock), CUPTI_ERROR_UNKNOWN);
    EXPECT_EQ(cupti.get_timestamp(&after), CUPTI_ERROR_UNKNOWN);  // and from then on
  });
}

TEST(FakeCupti, TheTimestampCallbackComesBeforeTheKinds) {
  expect_found("after kinds of records were enabled", [](const CuptiFunctions& cupti) {
    EXPECT_EQ(cupti.activity_register_timestamp_callback(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(cupti.activity_enable(CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_SUCCESS);
    cupti.activity_register_timestamp_callback(clock);
  });
}

TEST(FakeCupti, KernelRecordsThatSerialiseEndTheRun) {
  expect_found("serialise", [](const CuptiFunctions& cupti) {
    EXPECT_EQ(cupti.activity_enable(CUPTI_ACTIVITY_KIND_COUNT), CUPTI_ERROR_INVALID_KIND);
    cupti.activity_enable(CUPTI_ACTIVITY_KIND_KERNEL);
  });
}

alignas(8) std::array<std::uint8_t, 512> memory{};

void misaligned(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer = memory.data() + 4;
  *size = memory.size() - 4;
  *most = 0;
}
void used(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  memory.fill(1);
  *buffer = memory.data();
  *size = memory.size();
  *most = 0;
}
void none(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer = nullptr;
  *size = *most = 0;
}
std::size_t requests = 0;
void one_record(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  ++requests;
  *buffer = memory.data();
  *size = memory.size();
  *most = 1;
}
void take(CUcontext, std::uint32_t, std::uint8_t*, std::size_t, std::size_t) {}

void launch_and_flush(const CuptiFunctions& cupti, CUpti_BuffersCallbackRequestFunc request) {
  EXPECT_EQ(cupti.activity_register_callbacks(request, take), CUPTI_SUCCESS);
  cupti.activity_enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  Machine& machine = Machine::current();
  const StreamId stream = machine.create_stream("stream");
  note_launch(machine.work(stream, {"kernel", {}, {}, 1, {}}), LaunchKind::kernel, "kernel", 0);
  machine.synchronise(stream);
  cupti.activity_flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

TEST(FakeCupti, LooksAtTheBuffersItIsGiven) {
  expect_found("not aligned",
               [](const CuptiFunctions& cupti) { launch_and_flush(cupti, misaligned); });
  expect_found("promised to be zero", [](const CuptiFunctions& cupti) {
    std::uint8_t yes = 1;
    std::size_t bytes = 1;
    cupti.activity_set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &yes);
    launch_and_flush(cupti, used);
  });
}

TEST(FakeCupti, PutsNoMoreRecordsIntoABufferThanAllowed) {
  requests = 0;
  const Verdict verdict = run_with({}, 1, [](const CuptiFunctions& cupti, std::int32_t) {
    cupti.activity_enable(CUPTI_ACTIVITY_KIND_RUNTIME);
    launch_and_flush(cupti, one_record);
  });
  EXPECT_TRUE(verdict.ok());
  EXPECT_EQ(requests, 2U);  // the call and the kernel
}

TEST(FakeCupti, RecordsOnlyWhatIsEnabledAtTheLaunch) {
  requests = 0;
  const Verdict verdict = run_with({}, 1, [](const CuptiFunctions& cupti, std::int32_t) {
    launch_and_flush(cupti, one_record);
    cupti.activity_disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    Machine& machine = Machine::current();
    const StreamId stream = machine.create_stream("stream");
    note_launch(machine.work(stream, {"kernel", {}, {}, 1, {}}), LaunchKind::kernel, "kernel", 0);
    machine.synchronise(stream);
    cupti.activity_flush_all(0);
    EXPECT_EQ(cupti.activity_register_callbacks(one_record, nullptr),
              CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(cupti.activity_enable_driver_api(0, 1), CUPTI_ERROR_INVALID_PARAMETER);
  });
  EXPECT_TRUE(verdict.ok());
  EXPECT_EQ(requests, 1U);
}

TEST(FakeCupti, DropsWhatItHasNoBufferFor) {
  const Verdict verdict = run_with({}, 1, [](const CuptiFunctions& cupti, std::int32_t) {
    launch_and_flush(cupti, none);
    std::size_t dropped = 0;
    EXPECT_EQ(cupti.activity_get_num_dropped_records(nullptr, 0, &dropped), CUPTI_SUCCESS);
    EXPECT_EQ(dropped, 1U);
  });
  EXPECT_TRUE(verdict.ok());
}

TEST(FakeCupti, ExternalIdsAreAStackOfEachHostThread) {
  const Verdict verdict = run_with({}, 2, [](const CuptiFunctions& cupti, std::int32_t rank) {
    const auto kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    const auto own = static_cast<std::uint64_t>(rank) * 10;
    cupti.push_external_correlation_id(kind, own);
    cupti.push_external_correlation_id(kind, own + 1);
    Machine::current().barrier();
    std::uint64_t last = 0;
    EXPECT_EQ(cupti.pop_external_correlation_id(kind, &last), CUPTI_SUCCESS);
    EXPECT_EQ(last, own + 1);
    EXPECT_EQ(cupti.pop_external_correlation_id(kind, &last), CUPTI_SUCCESS);
    EXPECT_EQ(last, own);
    EXPECT_EQ(cupti.pop_external_correlation_id(kind, &last), CUPTI_ERROR_QUEUE_EMPTY);
    EXPECT_EQ(cupti.push_external_correlation_id(CUPTI_EXTERNAL_CORRELATION_KIND_INVALID, 1),
              CUPTI_ERROR_INVALID_PARAMETER);
  });
  EXPECT_TRUE(verdict.ok());
}

TEST(FakeCupti, RecordsOfUnknownKindsAreNotRead) {
  alignas(8) std::array<std::uint8_t, 64> buffer{};
  CUpti_Activity* record = nullptr;
  EXPECT_EQ(next_record(buffer.data(), 0, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
  EXPECT_EQ(next_record(buffer.data(), buffer.size(), &record), CUPTI_ERROR_INVALID_KIND);
}

TEST(LaunchLog, NobodyNeedsToListen) {
  EXPECT_EQ(LaunchLog::current(), nullptr);
  note_launch(0, LaunchKind::kernel, "kernel", 0);
  std::string heard;
  const LaunchLog log([&](const LaunchNote& launch) { heard = launch.name; });
  note_launch(0, LaunchKind::kernel, "kernel", 0);
  EXPECT_EQ(heard, "kernel");
}

}  // namespace
}  // namespace commfuse::fake
