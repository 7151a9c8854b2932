// SPDX-License-Identifier: Apache-2.0
#include "harness/record/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace commfuse {
namespace {

static_assert(std::is_trivially_copyable_v<IterationSummary>);

Span span(SpanKind kind, std::int64_t begin, std::int64_t end, std::uint8_t lane = 0) {
  Span made;
  made.kind = kind;
  made.begin_ns = begin;
  made.end_ns = end;
  made.lane = lane;
  return made;
}

Span received(std::int64_t begin, std::int64_t end, std::int64_t bytes) {
  Span made = span(SpanKind::transfer, begin, end, 2);
  made.bytes = bytes;
  return made;
}

Timeline timeline(std::int64_t start, std::int64_t end, std::vector<Span> spans) {
  return {0, start, end, std::move(spans)};
}

TEST(SpanNames, AreWhatTheDocumentationCallsThem) {
  EXPECT_EQ(name_of(SpanKind::model), "model");
  EXPECT_EQ(name_of(SpanKind::elementwise), "elementwise");
  EXPECT_EQ(name_of(SpanKind::overhead), "overhead");
  EXPECT_EQ(name_of(SpanKind::transfer), "transfer");
  EXPECT_EQ(name_of(SpanKind::collective), "collective");
}

TEST(Summarize, EmptyTimelineIsZero) {
  const IterationSummary summary = summarize({});
  EXPECT_EQ(summary.window, 0);
  EXPECT_EQ(summary.gap(), 0);
  EXPECT_FALSE(summary.preempted());
}

TEST(Summarize, WindowWithoutSpansIsAllHead) {
  const IterationSummary summary = summarize(timeline(100, 150, {}));
  EXPECT_EQ(summary.window, 50);
  EXPECT_EQ(summary.gap_head, 50);
  EXPECT_EQ(summary.tail_span, 0);
}

TEST(Summarize, WithoutModelOpsTheWholeGapIsHead) {  // comm_only
  Span collective = span(SpanKind::collective, 10, 90);
  collective.bytes = 4096;
  const IterationSummary summary = summarize(timeline(0, 100, {collective}));
  EXPECT_EQ(summary.busy, 0);
  EXPECT_EQ(summary.gap_head, 100);
  EXPECT_EQ(summary.gap_interior, 0);
  EXPECT_EQ(summary.gap_tail, 0);
  EXPECT_EQ(summary.transfer, 80);
  EXPECT_EQ(summary.overlapped, 0);
  EXPECT_EQ(summary.bytes_moved, 4096);
}

TEST(Summarize, PlacesEveryGap) {
  // 1000       1010    1030 1035    1055       1070   1080  1090
  //   | gather   | gemm  |    | gemm  | transfer | add  |     |
  const IterationSummary summary = summarize(
      timeline(1000, 1090,
               {span(SpanKind::collective, 1000, 1010), span(SpanKind::model, 1010, 1030),
                span(SpanKind::model, 1035, 1055), span(SpanKind::transfer, 1050, 1070, 2),
                span(SpanKind::overhead, 1070, 1080)}));
  EXPECT_EQ(summary.window, 90);
  EXPECT_EQ(summary.busy, 50);
  EXPECT_EQ(summary.model, 40);
  EXPECT_EQ(summary.overhead, 10);
  EXPECT_EQ(summary.gap_head, 10);
  EXPECT_EQ(summary.gap_interior, 5);
  EXPECT_EQ(summary.gap_tail, 25);   // 1055-1070 waiting for the partial, 1080-1090
  EXPECT_EQ(summary.tail_span, 35);  // adds included
  EXPECT_EQ(summary.transfer, 30);
  EXPECT_EQ(summary.overlapped, 5);  // 1050-1055 under the gemm
}

TEST(Summarize, ElementwiseBetweenModelOpsIsBusy) {
  const IterationSummary summary =
      summarize(timeline(0, 40,
                         {span(SpanKind::model, 0, 10), span(SpanKind::elementwise, 10, 15),
                          span(SpanKind::model, 18, 40)}));
  EXPECT_EQ(summary.elementwise, 5);
  EXPECT_EQ(summary.gap_interior, 3);
  EXPECT_EQ(summary.gap(), 3);
}

TEST(Summarize, OverlappingAndUnsortedSpansCountOnceInBusy) {
  const IterationSummary summary =
      summarize(timeline(0, 30, {span(SpanKind::model, 10, 20), span(SpanKind::overhead, 5, 15)}));
  EXPECT_EQ(summary.busy, 15);
  EXPECT_EQ(summary.model, 10);
  EXPECT_EQ(summary.overhead, 10);
  EXPECT_EQ(summary.gap_head, 5);
  EXPECT_EQ(summary.gap_tail, 10);
}

TEST(Summarize, ZeroLengthModelOpStillMarksItsPlace) {
  const IterationSummary summary = summarize(timeline(0, 10, {span(SpanKind::model, 4, 4)}));
  EXPECT_EQ(summary.busy, 0);
  EXPECT_EQ(summary.gap_head, 4);
  EXPECT_EQ(summary.gap_tail, 6);
  EXPECT_EQ(summary.tail_span, 6);
}

TEST(Summarize, ComputeOfOtherLanesIsNotBusy) {
  const IterationSummary summary = summarize(timeline(0, 10, {span(SpanKind::overhead, 0, 5, 1)}));
  EXPECT_EQ(summary.busy, 0);
  EXPECT_EQ(summary.overhead, 0);
}

TEST(Summarize, ClipsToTheWindow) {  // steady mode: an op of the iteration before reaches in
  const IterationSummary summary =
      summarize(timeline(100, 200, {span(SpanKind::model, 80, 130), received(150, 260, 8)}));
  EXPECT_EQ(summary.model, 30);
  EXPECT_EQ(summary.transfer, 50);
  EXPECT_EQ(summary.bytes_moved, 8);
}

TEST(Summarize, case_E4_leaves_out_impossible_spans) {
  const IterationSummary summary =
      summarize(timeline(1000, 1100,
                         {span(SpanKind::model, 0, 0), span(SpanKind::model, 1050, 1020),
                          span(SpanKind::transfer, 5000, 6000)}));
  EXPECT_EQ(summary.model, 0);
  EXPECT_EQ(summary.transfer, 0);
  EXPECT_EQ(summary.gap_head, 100);
}

TEST(Summarize, CountsBytesOnceAtTheReceiver) {
  Span sent = received(0, 10, 64);
  sent.send = true;
  EXPECT_EQ(
      summarize(timeline(0, 20, {sent, received(0, 12, 32), received(4, 20, 16)})).bytes_moved, 48);
}

TEST(Summarize, PreemptionComparesWallWithThreadTime) {
  Span op = span(SpanKind::model, 0, 1030);
  op.cpu_ns = 1000;
  EXPECT_FALSE(summarize(timeline(0, 1030, {op})).preempted());  // 3 % exactly
  op.end_ns = 1031;
  const IterationSummary summary = summarize(timeline(0, 1031, {op}));
  EXPECT_EQ(summary.compute_wall, 1031);
  EXPECT_EQ(summary.compute_cpu, 1000);
  EXPECT_TRUE(summary.preempted());
  EXPECT_FALSE(summary.preempted(0.05));
  op.cpu_ns = -1;  // not known: says nothing
  EXPECT_FALSE(summarize(timeline(0, 1031, {op})).preempted());
}

/// One character a nanosecond, written independently of the interval arithmetic.
struct Bitmap {
  explicit Bitmap(const Timeline& timeline)
      : busy(static_cast<std::size_t>(timeline.end_ns - timeline.start_ns)), wire(busy.size()) {
    for (const Span& span : timeline.spans) {
      const bool communication =
          span.kind == SpanKind::transfer || span.kind == SpanKind::collective;
      if (!communication && span.lane != 0) continue;
      for (std::int64_t t = span.begin_ns; t < span.end_ns; ++t) {
        if (t < timeline.start_ns || t >= timeline.end_ns) continue;
        (communication ? wire : busy)[static_cast<std::size_t>(t - timeline.start_ns)] = true;
      }
      if (span.kind == SpanKind::model && span.lane == 0) {
        first = any ? std::min(first, span.begin_ns) : span.begin_ns;
        last = any ? std::max(last, span.end_ns) : span.end_ns;
        any = true;
      }
    }
  }

  std::vector<bool> busy, wire;
  bool any = false;
  std::int64_t first = 0, last = 0;
};

void expect_same(const Timeline& timeline) {
  const Bitmap bitmap(timeline);
  std::int64_t busy = 0, wire = 0, both = 0, head = 0, interior = 0, tail = 0;
  for (std::size_t i = 0; i < bitmap.busy.size(); ++i) {
    const std::int64_t now = timeline.start_ns + static_cast<std::int64_t>(i);
    busy += bitmap.busy[i];
    wire += bitmap.wire[i];
    both += bitmap.busy[i] && bitmap.wire[i];
    if (bitmap.busy[i]) continue;
    const bool before = !bitmap.any || now < bitmap.first;
    const bool after = bitmap.any && now >= bitmap.last;
    (before ? head : after ? tail : interior) += 1;
  }
  const IterationSummary summary = summarize(timeline);
  ASSERT_EQ(summary.busy, busy);
  ASSERT_EQ(summary.transfer, wire);
  ASSERT_EQ(summary.overlapped, both);
  ASSERT_EQ(summary.gap_head, head);
  ASSERT_EQ(summary.gap_interior, interior);
  ASSERT_EQ(summary.gap_tail, tail);
  ASSERT_EQ(summary.gap(), summary.window - summary.busy);
}

TEST(Summarize, AgreesWithABitmapOfNanoseconds) {
  std::mt19937 random(20);
  std::uniform_int_distribution<std::int64_t> moment(100, 190);
  std::uniform_int_distribution<int> count(0, 9), kind(0, 4), lane(0, 2);
  for (int round = 0; round < 4000; ++round) {
    Timeline drawn = timeline(110, 180, {});
    for (int i = count(random); i > 0; --i) {
      const std::int64_t a = moment(random);
      const std::int64_t b = moment(random);
      const auto [begin, end] = std::minmax(a, b);
      Span made = span(static_cast<SpanKind>(kind(random)), begin, end,
                       static_cast<std::uint8_t>(lane(random)));
      // A model op outside the window has no place in it; the bitmap would need to know that too.
      if (made.kind == SpanKind::model) {
        made.begin_ns = std::clamp<std::int64_t>(begin, 110, 180);
        made.end_ns = std::clamp<std::int64_t>(end, 110, 180);
      }
      drawn.spans.push_back(made);
    }
    expect_same(drawn);
    if (HasFatalFailure()) return;
  }
}

IterationSummary of_window(std::int64_t window) {
  IterationSummary summary;
  summary.window = window;
  summary.busy = window;
  return summary;
}

TEST(WaterfallOfARepetition, NamesEveryLoss) {
  IterationSummary quiet = of_window(110);
  quiet.overhead = 6;
  IterationSummary run;
  run.window = 150;
  run.busy = 113;
  run.gap_head = 7;
  run.gap_interior = 10;
  run.gap_tail = 20;
  std::vector<IterationSummary> compute_only{of_window(90), of_window(100)};
  compute_only[1].overhead = 2;  // the workload's own
  const std::vector<IterationSummary> quiets{of_window(95), quiet};
  const std::vector<IterationSummary> runs{of_window(152), run};
  const Waterfall losses = waterfall(compute_only, quiets, runs);
  EXPECT_EQ(losses.rank, 1);
  EXPECT_EQ(losses.t, 152);
  EXPECT_EQ(losses.t_whole, 100);
  EXPECT_EQ(losses.decomposition, 10);
  EXPECT_EQ(losses.accumulate, 4);
  EXPECT_EQ(losses.contention, 3);
  EXPECT_EQ(losses.exposed, 37);
  EXPECT_EQ(losses.exposed_head, 7);
  EXPECT_EQ(losses.exposed_interior, 10);
  EXPECT_EQ(losses.exposed_tail, 20);
  EXPECT_EQ(losses.last_rank, 2);
}

TEST(WaterfallOfARepetition, NeedsTheSameRanks) {
  const std::vector<IterationSummary> one(1), two(2), none;
  EXPECT_THROW(waterfall(one, two, two), std::invalid_argument);
  EXPECT_THROW(waterfall(two, one, two), std::invalid_argument);
  EXPECT_THROW(waterfall(none, none, none), std::invalid_argument);
}

TEST(WaterfallOfARepetition, AddsUpExactly) {
  std::mt19937_64 random(3);
  std::uniform_int_distribution<std::int64_t> part(0, 20'000'000'000);
  std::uniform_int_distribution<std::size_t> ranks(1, 8);
  const auto draw = [&](std::size_t count) {
    std::vector<IterationSummary> drawn(count);
    for (IterationSummary& summary : drawn) {
      summary.busy = part(random);
      summary.gap_head = part(random);
      summary.gap_interior = part(random);
      summary.gap_tail = part(random);
      summary.window = summary.busy + summary.gap();
    }
    return drawn;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::size_t count = ranks(random);
    const Waterfall w = waterfall(draw(count), draw(count), draw(count));
    ASSERT_EQ(w.t, w.t_whole + w.decomposition + w.contention + w.exposed + w.last_rank);
    ASSERT_EQ(w.exposed, w.exposed_head + w.exposed_interior + w.exposed_tail);
    ASSERT_GE(w.last_rank, 0);
  }
}

TEST(Bound, IsComputeOrTheLink) {
  EXPECT_DOUBLE_EQ(bound_ns(1000, 4000, 2e9), 2000);
  EXPECT_DOUBLE_EQ(bound_ns(5000, 4000, 2e9), 5000);
  EXPECT_DOUBLE_EQ(bound_ns(5000, 1 << 30, 0), 5000);
}

TEST(HiddenShare, IsNotClamped) {
  EXPECT_DOUBLE_EQ(hidden_share(100, 100, 140).value(), 1);
  EXPECT_DOUBLE_EQ(hidden_share(110, 100, 140).value(), 0.75);
  EXPECT_DOUBLE_EQ(hidden_share(140, 100, 140).value(), 0);
  EXPECT_DOUBLE_EQ(hidden_share(160, 100, 140).value(), -0.5);  // slower than plain
  EXPECT_DOUBLE_EQ(hidden_share(90, 100, 140).value(), 1.25);
  EXPECT_FALSE(hidden_share(100, 100, 100).has_value());
  EXPECT_FALSE(hidden_share(100, 100, 99).has_value());
}

TEST(Overlap, ByItsNames) {
  IterationSummary summary;
  EXPECT_FALSE(overlap_hta(summary).has_value());
  summary.transfer = 400;
  summary.overlapped = 300;
  EXPECT_DOUBLE_EQ(overlap_hta(summary).value(), 0.75);

  EXPECT_DOUBLE_EQ(overlap_omb(110, 100, 40).value(), 0.75);
  EXPECT_DOUBLE_EQ(overlap_omb(180, 100, 40).value(), -1);  // slower than one after the other
  EXPECT_FALSE(overlap_omb(110, 100, 0).has_value());

  EXPECT_DOUBLE_EQ(overlap_imb_nbc(110, 100, 40).value(), 0.3);
  EXPECT_DOUBLE_EQ(overlap_imb_nbc(110, 100, 200).value(), 0.95);
  EXPECT_FALSE(overlap_imb_nbc(0, 0, 0).has_value());
}

TEST(Bandwidth, FollowsNcclTests) {
  EXPECT_DOUBLE_EQ(algbw(4'000'000, 2'000'000), 2e9);
  EXPECT_DOUBLE_EQ(busbw_factor("all_gather", 4), 0.75);
  EXPECT_DOUBLE_EQ(busbw_factor("reduce_scatter", 8), 0.875);
  EXPECT_DOUBLE_EQ(busbw_factor("all_to_all", 2), 0.5);
  EXPECT_DOUBLE_EQ(busbw_factor("all_reduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(busbw_factor("all_gather", 1), 0);
  EXPECT_THROW(busbw_factor("broadcast", 4), std::invalid_argument);
}

}  // namespace
}  // namespace commfuse
