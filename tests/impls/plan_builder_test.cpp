// SPDX-License-Identifier: Apache-2.0
// The dependencies that PlanBuilder finds, against every pair of conflicting accesses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <tuple>

#include "impls/plan.h"

namespace commfuse {
namespace {

constexpr std::int32_t kRows = 12;
constexpr std::int32_t kCols = 6;
constexpr std::int32_t kRanks = 4;

Workload empty_workload() {
  Workload workload;
  workload.ranks = kRanks;
  for (const char* name : {"a", "b", "c"}) {
    workload.tensors.push_back({name, kRows, kCols, DType::f32});
  }
  return workload;
}

/// What happens in a plan: op i starts and ends, message j starts and ends. `reaches` is the
/// closure of "before". Messages of one lane and direction start in order; compute ops and
/// collectives start after all messages before them on their lane, and end before the next.
class Events {
 public:
  explicit Events(const Plan& plan)
      : plan_(plan), count_(2 * (plan.ops.size() + plan.messages.size())), reaches_(count_) {
    for (std::vector<bool>& row : reaches_) row.resize(count_);
    using Turn = std::vector<std::size_t>;          // what the next in a queue waits for
    std::array<std::array<Turn, 2>, kLanes> turns;  // by lane and direction
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      const Op& op = plan.ops[id];
      std::array<Turn, 2>& turn = turns[static_cast<std::size_t>(op.lane)];
      const auto* exchange = std::get_if<Exchange>(&op.work);
      if (exchange == nullptr) {
        for (Turn& before : turn) take_turn(before, {id, kWholeOp}, true);
        continue;
      }
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        take_turn(turn[plan.messages[m].send ? 1 : 0], {id, m}, false);
      }
    }
  }

  void wait(const Dependency& waits, const Dependency& on) { add(end(on), start(waits)); }

  void close() {
    for (std::size_t k = 0; k < count_; ++k) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (!reaches_[i][k]) continue;
        for (std::size_t j = 0; j < count_; ++j) {
          if (reaches_[k][j]) reaches_[i][j] = true;
        }
      }
    }
  }
  friend bool operator==(const Events& a, const Events& b) { return a.reaches_ == b.reaches_; }
  [[nodiscard]] bool ordered(const Dependency& waits, const Dependency& on) const {
    return reaches_[end(on)][start(waits)];
  }

 private:
  [[nodiscard]] std::size_t start(const Dependency& of) const {
    return of.message == kWholeOp ? of.op : plan_.ops.size() + of.message;
  }
  [[nodiscard]] std::size_t end(const Dependency& of) const { return count_ / 2 + start(of); }
  void add(std::size_t before, std::size_t after) { reaches_[before][after] = true; }
  void take_turn(std::vector<std::size_t>& before, const Dependency& next, bool whole) {
    for (const std::size_t event : before) add(event, start(next));
    add(start(next), end(next));
    before = {whole ? end(next) : start(next)};
  }

  const Plan& plan_;
  std::size_t count_;
  std::vector<std::vector<bool>> reaches_;
};

struct Use {
  Dependency by;
  Access access;
};

std::vector<Use> uses_of(const Plan& plan) {
  std::vector<Use> uses;
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    for (const Access& access : accesses(plan, plan.ops[id])) {
      uses.push_back({{id, access.message}, access});
    }
  }
  return uses;
}

Events every_conflict(const Plan& plan) {
  Events events(plan);
  const std::vector<Use> uses = uses_of(plan);
  for (const Use& late : uses) {
    for (const Use& early : uses) {
      if (early.by.op < late.by.op && (early.access.write || late.access.write) &&
          overlap(early.access.view, late.access.view)) {
        events.wait(late.by, early.by);
      }
    }
  }
  events.close();
  return events;
}

Events found(const Plan& plan) {
  Events events(plan);
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    const auto* exchange = std::get_if<Exchange>(&plan.ops[id].work);
    if (exchange == nullptr) {
      for (const Dependency& on : plan.dependencies_of(plan.ops[id])) {
        events.wait({id, kWholeOp}, on);
      }
      continue;
    }
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      for (const Dependency& on : plan.dependencies_of(plan.messages[m])) events.wait({id, m}, on);
    }
  }
  events.close();
  return events;
}

class RandomOps {
 public:
  explicit RandomOps(std::uint64_t seed) : random_(seed) {}

  Plan build(std::size_t count) {
    const Workload workload = empty_workload();
    PlanBuilder builder(workload, 0);
    for (std::size_t i = 0; i < count; ++i) append(builder);
    return builder.take({}, {});
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  View view() {
    View view;
    view.tensor = static_cast<TensorId>(pick(0, 2));
    view.strips = pick(0, 2) == 0 ? pick(2, 3) : 1;
    view.rows = pick(1, kRows / view.strips);
    view.row_step = view.strips == 1 ? 0 : pick(view.rows, kRows / view.strips);
    view.row = pick(0, kRows - view.rows - view.row_step * (view.strips - 1));
    view.cols = pick(0, 1) == 0 ? kCols : pick(1, kCols);
    view.col = pick(0, kCols - view.cols);
    return view;
  }
  View rows(std::int32_t count) {
    return {.tensor = static_cast<TensorId>(pick(0, 2)),
            .row = pick(0, kRows - count),
            .rows = count,
            .cols = kCols};
  }
  void append(PlanBuilder& builder) {
    switch (pick(0, 5)) {
      case 0:
        builder.compute(Copy{view(), view()});
        break;
      case 1: {
        const View d = view();
        builder.compute(Gemm{.d = d, .a = view(), .b = view(), .c = d});
        break;
      }
      case 2:
        builder.collective(static_cast<Lane>(pick(0, 2)),
                           {CollectiveKind::all_gather, rows(1), rows(kRanks)});
        break;
      default: {
        std::vector<PlanBuilder::Transfer> transfers;
        for (int i = pick(1, 3); i > 0; --i) {
          const PlanBuilder::Transfer next{pick(0, 1) == 0, pick(1, kRanks - 1), view()};
          // Messages of one exchange must not meet in what one of them receives.
          const bool meets =
              std::any_of(transfers.begin(), transfers.end(), [&](const auto& other) {
                return !(next.send && other.send) && overlap(next.view, other.view);
              });
          if (!meets) transfers.push_back(next);
        }
        builder.exchange(static_cast<Lane>(pick(1, 2)), transfers);
      }
    }
  }

  std::mt19937_64 random_;
};

TEST(PlanBuilder, OrdersEveryConflictAndNothingElse) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Plan plan = RandomOps(seed).build(4 + seed % 30);
    ASSERT_TRUE(found(plan) == every_conflict(plan)) << "seed " << seed;
  }
}

TEST(PlanBuilder, LeavesOutWhatALaneImplies) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Plan plan = RandomOps(seed).build(40);
    for (const Op& op : plan.ops) {
      std::set<std::tuple<MessageId, OpId, MessageId>> seen;
      const auto check = [&](MessageId waits, const Dependency& on) {
        const Op& other = plan.ops[on.op];
        const bool whole = on.message == kWholeOp;
        EXPECT_TRUE(seen.emplace(waits, on.op, on.message).second) << "seed " << seed;
        EXPECT_FALSE(whole && other.lane == op.lane) << "seed " << seed;
        EXPECT_EQ(whole, !std::holds_alternative<Exchange>(other.work)) << "seed " << seed;
        for (const auto& [by, earlier, message] : seen) {
          const bool another = by == waits && earlier != on.op && message == kWholeOp;
          EXPECT_FALSE(whole && another && plan.ops[earlier].lane == other.lane);
        }
      };
      if (const auto* exchange = std::get_if<Exchange>(&op.work)) {
        for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
          for (const Dependency& on : plan.dependencies_of(plan.messages[m])) check(m, on);
        }
        EXPECT_EQ(seen.size(), op.dependencies);
      } else {
        for (const Dependency& on : plan.dependencies_of(op)) check(kWholeOp, on);
      }
    }
  }
}

TEST(PlanBuilder, KeepsADependencyOnAMessageOfTheSameLane) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const View first = rows_of(0, workload.tensors[0], 0, 2);
  const View second = rows_of(0, workload.tensors[0], 2, 2);
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{false, 1, first}});
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{true, 2, first},
                                            PlanBuilder::Transfer{false, 1, second}});
  const Plan plan = builder.take({}, {});
  ASSERT_EQ(plan.messages.size(), 3U);
  ASSERT_EQ(plan.dependencies_of(plan.messages[1]).size(), 1U);
  EXPECT_EQ(plan.dependencies_of(plan.messages[1]).front(), (Dependency{0, 0}));
  EXPECT_TRUE(plan.dependencies_of(plan.messages[2]).empty());
  EXPECT_EQ(plan.messages[1].sequence, 0U);
  EXPECT_EQ(plan.messages[2].sequence, 1U);
  EXPECT_EQ(plan.messages[2].logical_bytes, 2 * kCols * 4);
}

TEST(PlanBuilder, LeavesOutWhatALaneHasWaitedForBefore) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto rows = [&](TensorId id, std::int32_t row) {
    return rows_of(id, workload.tensors[id], row, 1);
  };
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{false, 1, rows(0, 0)}});
  builder.compute(Copy{rows(1, 0), rows(0, 0)});
  builder.compute(Copy{rows(1, 1), rows(0, 0)});
  builder.exchange(Lane::scatter, std::array{PlanBuilder::Transfer{true, 1, rows(1, 1)}});
  builder.exchange(Lane::scatter, std::array{PlanBuilder::Transfer{true, 1, rows(1, 0)}});
  const Plan plan = builder.take({}, {});
  EXPECT_EQ(plan.ops[1].dependencies, 1U);
  EXPECT_EQ(plan.ops[2].dependencies, 0U);
  EXPECT_EQ(plan.ops[3].dependencies, 1U);
  EXPECT_EQ(plan.ops[4].dependencies, 0U);
}

/// An executor may start the receives of a lane ahead of its sends.
TEST(PlanBuilder, KeepsWhatOnlyTheOtherDirectionHasWaitedFor) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto rows = [&](TensorId id, std::int32_t row) {
    return rows_of(id, workload.tensors[id], row, 1);
  };
  builder.compute(Copy{rows(1, 0), rows(0, 0)});
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{true, 1, rows(1, 0)}});
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{false, 1, rows(0, 0)}});
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{true, 1, rows(1, 0)}});
  const Plan plan = builder.take({}, {});
  for (const MessageId m : {0U, 1U}) {
    ASSERT_EQ(plan.dependencies_of(plan.messages[m]).size(), 1U) << m;
    EXPECT_EQ(plan.dependencies_of(plan.messages[m]).front(), (Dependency{0, kWholeOp})) << m;
  }
  EXPECT_TRUE(plan.dependencies_of(plan.messages[2]).empty());
}

TEST(PlanBuilder, TheFirstGemmOfASumStandsAlone) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const View sum{.tensor = 2, .rows = 4, .cols = 3};
  const View other{.tensor = 2, .row = 4, .rows = 4, .cols = 3};
  const View a{.tensor = 0, .rows = 4, .cols = 5};
  const View b{.tensor = 1, .rows = 3, .cols = 5};
  builder.compute(Gemm{.d = sum, .a = a, .b = b, .c = sum});
  builder.compute(Gemm{.d = sum, .a = a, .b = b, .c = sum});
  builder.compute(Gemm{.d = other, .a = a, .b = b, .c = other});
  builder.compute(Copy{other, sum});
  builder.compute(Gemm{.d = other, .a = a, .b = b, .c = other});
  const Plan plan = builder.take({}, {});
  const auto adds = [&](OpId id) { return std::get<Gemm>(plan.ops[id].work).c.has_value(); };
  EXPECT_FALSE(adds(0));
  EXPECT_TRUE(adds(1));
  EXPECT_FALSE(adds(2));
  EXPECT_TRUE(adds(4));
}

TEST(PlanBuilder, PutsOffWhatNobodyNeedsYet) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto rows = [&](TensorId id, std::int32_t row) {
    return rows_of(id, workload.tensors[id], row, 1);
  };
  builder.begin_stage(1);
  builder.compute_later(Copy{rows(1, 0), rows(0, 0)});
  builder.compute_later(Copy{rows(1, 1), rows(0, 1)});
  builder.compute_later(Copy{rows(1, 2), rows(0, 2)});
  builder.begin_stage(2);
  builder.compute(Copy{rows(2, 0), rows(0, 0)});  // both read
  builder.compute(Copy{rows(2, 1), rows(1, 1)});  // reads what is written later
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{false, 1, rows(0, 2)}});
  const Plan plan = builder.take({}, {});
  ASSERT_EQ(plan.ops.size(), 6U);
  const auto written = [&](OpId id) { return std::get<Copy>(plan.ops[id].work).d; };
  EXPECT_EQ(written(0), rows(2, 0));
  EXPECT_EQ(written(1), rows(1, 1));
  EXPECT_EQ(written(2), rows(2, 1));
  EXPECT_EQ(written(3), rows(1, 2));  // before what it reads is overwritten
  EXPECT_TRUE(std::holds_alternative<Exchange>(plan.ops[4].work));
  EXPECT_EQ(written(5), rows(1, 0));
  EXPECT_EQ(plan.ops[1].stage, 1);
  EXPECT_EQ(plan.ops[2].stage, 2);
  EXPECT_EQ(plan.dependencies_of(plan.messages[0]).front(), (Dependency{3, kWholeOp}));
  EXPECT_THROW(builder.compute_later(Copy{rows(1, 0), {.tensor = 9, .rows = 1, .cols = 1}}),
               std::out_of_range);
}

TEST(PlanBuilder, WhatIsPutOffKeepsItsOrder) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto rows = [&](TensorId id, std::int32_t row) {
    return rows_of(id, workload.tensors[id], row, 1);
  };
  builder.compute_later(Copy{rows(1, 0), rows(0, 0)});
  builder.compute_later(Copy{rows(1, 5), rows(0, 5)});
  builder.compute_later(Copy{rows(1, 1), rows(1, 0)});  // of the first
  builder.compute_later(Copy{rows(1, 0), rows(0, 1)});  // over what the third has read
  builder.compute(Copy{rows(2, 0), rows(1, 1)});        // needs the third, and so the first
  const Plan plan = builder.take({}, {});
  std::vector<View> written;
  for (const Op& op : plan.ops) written.push_back(std::get<Copy>(op.work).d);
  EXPECT_EQ(written,
            (std::vector<View>{rows(1, 0), rows(1, 1), rows(2, 0), rows(1, 5), rows(1, 0)}));
}

TEST(PlanBuilder, TransfersThatArePutOffWaitForTheNextStage) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto rows = [&](TensorId id, std::int32_t row) {
    return rows_of(id, workload.tensors[id], row, 1);
  };
  const auto send_later = [&](Lane lane, std::int32_t row) {
    builder.exchange_later(lane, std::array{PlanBuilder::Transfer{true, 1, rows(1, row)}});
  };
  builder.begin_stage(0);
  builder.compute_later(Copy{rows(1, 0), rows(0, 0)});
  send_later(Lane::gather, 0);
  builder.compute_later(Copy{rows(2, 0), rows(1, 0)});  // may wait longer than what it reads
  builder.begin_stage(1);
  builder.compute(Copy{rows(2, 1), rows(0, 1)});
  send_later(Lane::gather, 1);
  builder.begin_stage(2);
  builder.compute(Copy{rows(2, 2), rows(0, 2)});
  const Plan plan = builder.take({}, {});
  ASSERT_EQ(plan.ops.size(), 6U);
  const auto written = [&](OpId id) { return std::get<Copy>(plan.ops[id].work).d; };
  EXPECT_EQ(written(0), rows(2, 1));
  EXPECT_EQ(written(1), rows(1, 0));  // what the first transfer sends
  EXPECT_EQ(plan.messages_of(std::get<Exchange>(plan.ops[2].work))[0].view, rows(1, 0));
  EXPECT_EQ(plan.ops[2].stage, 0);
  EXPECT_EQ(written(3), rows(2, 2));
  EXPECT_EQ(written(4), rows(2, 0));
  EXPECT_EQ(plan.messages_of(std::get<Exchange>(plan.ops[5].work))[0].view, rows(1, 1));
  EXPECT_EQ(plan.messages[1].sequence, 1U);
  EXPECT_THROW(builder.exchange_later(Lane::gather, std::array{PlanBuilder::Transfer{
                                                        true, 1, {.tensor = 9, .rows = 1}}}),
               std::out_of_range);
}

TEST(PlanBuilder, ALaneKeepsTheOrderInWhichTransfersWereAskedFor) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto row = [&](TensorId id, std::int32_t number) {
    return rows_of(id, workload.tensors[id], number, 1);
  };
  const auto receive_later = [&](Lane lane, std::int32_t number) {
    builder.exchange_later(lane, std::array{PlanBuilder::Transfer{false, 1, row(1, number)}});
  };
  receive_later(Lane::gather, 0);
  receive_later(Lane::scatter, 1);
  receive_later(Lane::gather, 2);
  receive_later(Lane::gather, 3);
  builder.compute(Copy{row(2, 0), row(1, 2)});  // needs the second of its lane, so the first
  builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{true, 1, row(2, 1)}});
  builder.collective(Lane::scatter, {CollectiveKind::all_gather, row(2, 2), row(2, 3)});
  const Plan plan = builder.take({}, {});
  std::vector<View> moved;
  for (const Message& message : plan.messages) moved.push_back(message.view);
  EXPECT_EQ(moved, (std::vector<View>{row(1, 0), row(1, 2), row(1, 3), row(2, 1), row(1, 1)}));
  ASSERT_EQ(plan.ops.size(), 7U);
  EXPECT_TRUE(std::holds_alternative<Copy>(plan.ops[2].work));
  EXPECT_TRUE(std::holds_alternative<Collective>(plan.ops[6].work));
}

TEST(PlanBuilder, KnowsInWhichOrderPeersCameIn) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto receive = [&](TensorId id, std::int32_t peer, std::int32_t row) {
    builder.exchange(Lane::scatter, std::array{PlanBuilder::Transfer{
                                        false, peer, rows_of(id, workload.tensors[id], row, 1)}});
  };
  receive(1, 3, 0);
  receive(0, 2, 0);
  receive(1, 1, 1);
  receive(1, 3, 2);
  builder.exchange(Lane::scatter, std::array{PlanBuilder::Transfer{
                                      true, 2, rows_of(1, workload.tensors[1], 5, 1)}});
  EXPECT_EQ(builder.arrivals(1), (std::vector<std::int32_t>{3, 1}));
  EXPECT_EQ(builder.arrivals(0), (std::vector<std::int32_t>{2}));
  EXPECT_TRUE(builder.arrivals(2).empty());
}

TEST(PlanBuilder, IsEmptyAfterThePlanIsTaken) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 2);
  builder.begin_stage(3);
  const TensorId scratch = builder.scratch("extra", 4, 5, DType::bf16);
  builder.compute(
      Copy{whole(scratch, builder.tensor(scratch)), {.tensor = 0, .rows = 4, .cols = 5}});
  const Plan plan = builder.take({{.tensor = 0, .rows = 4, .cols = 5}}, {});
  EXPECT_EQ(plan.rank, 2);
  EXPECT_EQ(plan.ops.front().stage, 3);
  EXPECT_EQ(plan.workload_tensors, 3U);
  EXPECT_EQ(plan.scratch_bytes(), 4 * 5 * 2);
  EXPECT_EQ(plan.inputs.size(), 1U);
  EXPECT_TRUE(builder.take({}, {}).ops.empty());
}

TEST(PlanBuilder, TheFirstGammaGradientOfASumStandsAlone) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto gradient = [](std::int32_t row, bool adds) {
    return GammaGradient{.d = {.tensor = 2, .row = row, .rows = 1, .cols = 5},
                         .dy = {.tensor = 0, .rows = 4, .cols = 5},
                         .x = {.tensor = 1, .rows = 4, .cols = 5},
                         .adds = adds};
  };
  for (const std::int32_t row : {0, 0, 1, 0}) builder.compute(gradient(row, true));
  builder.compute(gradient(0, false));
  const Plan plan = builder.take({}, {});
  const auto adds = [&](OpId id) { return std::get<GammaGradient>(plan.ops[id].work).adds; };
  EXPECT_FALSE(adds(0));
  EXPECT_TRUE(adds(1));
  EXPECT_FALSE(adds(2));
  EXPECT_TRUE(adds(3));
  EXPECT_FALSE(adds(4));
}

TEST(PlanBuilder, TheFirstAttentionGradientOfASumStandsAlone) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const auto gradient = [](std::int32_t tile, std::int32_t keys) {
    const View queries{.tensor = 0, .row = tile, .rows = 1, .cols = 2};
    const View read{.tensor = 1, .rows = 2, .cols = 2};
    View dk{.tensor = 2, .row = 4 * keys, .rows = 2, .cols = 2};
    View dv = dk;
    dv.row += 2;
    return AttentionGradient{.dq = {.tensor = 0, .row = tile, .rows = 1, .col = 2, .cols = 2},
                             .dk = dk,
                             .dv = dv,
                             .d_o = queries,
                             .q = queries,
                             .k = read,
                             .v = read,
                             .head_dim = 2,
                             .adds = true};
  };
  builder.compute(gradient(0, 0));
  builder.compute(gradient(1, 0));
  builder.compute(gradient(2, 1));
  const Plan plan = builder.take({}, {});
  const auto adds = [&](OpId id) { return std::get<AttentionGradient>(plan.ops[id].work).adds; };
  EXPECT_FALSE(adds(0));
  EXPECT_TRUE(adds(1));
  EXPECT_FALSE(adds(2));
}

TEST(PlanBuilder, EveryViewThatAnOpWritesIsWaitedFor) {
  const Workload workload = empty_workload();
  const auto row_of = [](TensorId id, std::int32_t row) {
    return View{.tensor = id, .row = row, .rows = 1, .cols = kCols};
  };
  for (const std::int32_t row : {0, 1, 2, 3, 4}) {
    PlanBuilder builder(workload, 0);
    builder.compute(Adam{row_of(2, 0), row_of(2, 1), row_of(2, 2), row_of(0, 0), row_of(0, 1),
                         row_of(0, 2), row_of(1, 0), row_of(2, 3)});
    builder.exchange(Lane::gather, std::array{PlanBuilder::Transfer{true, 1, row_of(2, row)}});
    const Plan plan = builder.take({}, {});
    EXPECT_EQ(plan.dependencies_of(plan.messages[0]).size(), row < 4 ? 1U : 0U) << row;
  }
}

TEST(PlanBuilder, RejectsViewsOutsideTheirTensor) {
  const Workload workload = empty_workload();
  PlanBuilder builder(workload, 0);
  const View good{.tensor = 0, .rows = 2, .cols = kCols};
  for (const View& bad :
       {View{.tensor = 7, .rows = 1, .cols = 1},
        View{.tensor = 0, .row = kRows, .rows = 1, .cols = 1},
        View{.tensor = 0, .rows = 1, .col = -1, .cols = 2}, View{.tensor = 0, .rows = 0, .cols = 2},
        View{.tensor = 0, .rows = 4, .cols = 2, .strips = 3, .row_step = 5}}) {
    EXPECT_THROW(builder.compute(Copy{good, bad}), std::out_of_range);
    EXPECT_THROW(builder.compute(Copy{bad, good}), std::out_of_range);
  }
  EXPECT_TRUE(builder.take({}, {}).ops.empty());
}

}  // namespace
}  // namespace commfuse
