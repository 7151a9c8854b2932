// SPDX-License-Identifier: Apache-2.0
// Damage that verify() is responsible for, and what it says about it.
#include "impls/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "impls/explain.h"
#include "impls/transform.h"
#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

std::string error_of(const std::vector<Plan>& plans, const Workload& workload,
                     MessageCompletion completion = MessageCompletion::each_message) {
  try {
    verify(plans, workload, completion);
  } catch (const PlanError& error) {
    return error.what();
  }
  return "";
}

testing::AssertionResult contains(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' lacks '" << part << "'";
}

/// gemm_rs on three ranks, ring, two parts. Ops of a rank: gemm and exchange alternate for four
/// parts of other slices (messages 2i send, 2i + 1 receive), then two gemms of the own slice.
class VerifyRing : public testing::Test {
 protected:
  Message& message(std::size_t rank, MessageId id) { return plans_[rank].messages[id]; }
  template <class T>
  T& work(std::size_t rank, OpId id) {
    return std::get<T>(plans_[rank].ops[id].work);
  }
  [[nodiscard]] std::string error() const { return error_of(plans_, workload_); }

  /// Takes out what `op` waits for.
  void drop_dependency(std::size_t rank, OpId op) {
    Op& damaged = plans_[rank].ops[op];
    damaged.dependencies = 0;
    const auto* exchange = std::get_if<Exchange>(&damaged.work);
    if (exchange == nullptr) return;
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      message(rank, m).first_dependency = damaged.first_dependency;
      message(rank, m).dependencies = 0;
    }
  }

  Workload workload_ = small_workload("tpsp/gemm_rs", 3, 4);
  std::vector<Plan> plans_ = plans_of("commfuse:order=ring:m=2", workload_);
};

TEST_F(VerifyRing, FindsTrafficAndMemory) {
  for (const PlanFacts& facts : verify(plans_, workload_)) {
    EXPECT_EQ(facts.bytes_sent, 2 * 4 * 8 * 4);  // two slices of four rows of eight floats
    EXPECT_EQ(facts.minimum_bytes, facts.bytes_sent);
    EXPECT_EQ(facts.scratch_bytes, 2 * 4 * 8 * 4);
  }
}

TEST_F(VerifyRing, SwappedPeersOfOneRank) {
  std::swap(message(1, 6).peer, message(1, 7).peer);  // the last exchange
  message(1, 6).sequence = message(1, 7).sequence = 0;
  const std::string text = error();
  EXPECT_TRUE(contains(text, "rank 0 op 7 (scatter lane: exchange #6 send partial[6:8, :] to 1"));
  EXPECT_TRUE(contains(text, "sends partial[6:8, :] to rank 1, which has no receive for it"));
  EXPECT_TRUE(contains(text, "(scatter lane, number 3)"));
}

TEST_F(VerifyRing, AMissingReceive) {
  Plan& plan = plans_[2];
  plan.ops.resize(7);  // the last exchange, and with it a receive and a send, is gone
  plan.messages.resize(6);
  const std::string text = error();
  EXPECT_TRUE(contains(text, "op 7 (scatter lane"));
  EXPECT_TRUE(contains(text, "rank 2, which has no"));
}

TEST_F(VerifyRing, AShortenedReceive) {
  message(1, 3).view.rows = 1;
  message(1, 3).logical_bytes /= 2;
  const std::string text = error();
  EXPECT_TRUE(contains(text, "rank 0 op 3 (scatter lane"));
  EXPECT_TRUE(contains(text, "sends 64 bytes of partial[10:12, :]"));
  EXPECT_TRUE(contains(text, "rank 1 op 3"));
  EXPECT_TRUE(contains(text, "receives 32 bytes into gemm_rs.landing[2:3, :]"));
}

TEST_F(VerifyRing, AMessageLargerThanItsView) {
  message(1, 3).view.rows = 1;
  const std::string text = error();
  EXPECT_TRUE(contains(text, "rank 1 op 3"));
  EXPECT_TRUE(contains(text, "moves 64 bytes, but gemm_rs.landing[2:3, :] holds 32"));
}

TEST_F(VerifyRing, ADroppedDependencyOfASend) {
  drop_dependency(2, 3);
  const std::string text = error();
  EXPECT_TRUE(contains(text, "rank 2 op 3 (scatter lane: exchange #2 send partial[6:8, :]"));
  EXPECT_TRUE(contains(text, "does not wait for rank 2 op 2 (compute lane: gemm partial[6:8, :]"));
  EXPECT_TRUE(contains(text, "though both use partial[6:8, :]"));
}

TEST_F(VerifyRing, ADroppedDependencyOnAReceive) {
  drop_dependency(0, 4);
  const std::string text = error();
  EXPECT_TRUE(contains(text, "rank 0 op 4 (compute lane: gemm partial[4:6, :]"));
  EXPECT_TRUE(contains(text, "does not wait for message #1 of rank 0 op 1"));
  EXPECT_TRUE(contains(text, "though both use gemm_rs.landing[0:2, :]"));
}

TEST_F(VerifyRing, ScratchUsedAgain) {
  message(0, 5).view = message(0, 1).view;  // lands where an earlier partial is still read
  const std::string text = error();
  EXPECT_TRUE(contains(text, "rank 0 op 5 (scatter lane"));
  EXPECT_TRUE(contains(text, "though both use gemm_rs.landing[0:2, :]"));
}

TEST_F(VerifyRing, AnUnwrittenRead) {
  work<Gemm>(1, 2).d.rows -= 1;
  work<Gemm>(1, 2).a.rows -= 1;
  const std::string text = error();
  EXPECT_TRUE(contains(text, "rank 1 op 3 (scatter lane: exchange #2 send partial[2:4, :]"));
  EXPECT_TRUE(contains(text, "reads partial[3:4, :], which nothing wrote before"));
}

TEST_F(VerifyRing, AnUnwrittenOutput) {
  work<Gemm>(1, 9).d = work<Gemm>(1, 8).d;
  EXPECT_EQ(
      error(),
      "rank 1: nothing writes result[2:4, :] of output result[0:4, :]; the last to write that "
      "tensor is rank 1 op 9 (compute lane: gemm result[0:2, :] = A[6:8, :] * D[0:8, :]^T + "
      "gemm_rs.landing[6:8, :])");
}

TEST_F(VerifyRing, AnUnwrittenColumn) {
  auto& last = work<Gemm>(1, 9);
  last.d.cols = last.c->cols = last.b.rows = 7;
  EXPECT_TRUE(
      contains(error(), "rank 1: nothing writes result[2:4, 7:8] of output result[0:4, :]; the "));
}

TEST_F(VerifyRing, BadReferences) {
  plans_[0].dependencies[0] = {9, kWholeOp};
  EXPECT_TRUE(contains(error(), "rank 0 op 1"));
  EXPECT_TRUE(contains(error(), "depends on op 9, which is not an earlier one"));
  plans_[0].dependencies[0] = {0, 3};
  EXPECT_TRUE(contains(error(), "depends on message #3, which op 0 does not have"));
  plans_[0].dependencies[0] = {0, kWholeOp};
  EXPECT_EQ(error(), "");
  message(0, 2).peer = 0;
  EXPECT_TRUE(contains(error(), "has no peer 0 for partial[10:12, :]"));
  message(0, 2).peer = 1;
  message(0, 2).sequence = 7;
  EXPECT_TRUE(contains(error(), "numbers partial[10:12, :] 7 where 1 is next"));
  message(0, 2).sequence = 1;
  message(0, 2).view.row = 11;
  EXPECT_TRUE(contains(error(), "has a view outside of its tensor"));
}

TEST_F(VerifyRing, AComputeOpWhoseViewsDoNotFit) {
  work<Gemm>(1, 2).a.rows -= 1;
  EXPECT_EQ(error(),
            "rank 1 op 2 (compute lane: gemm partial[2:4, :] = A[2:3, :] * D[0:8, :]^T) does not "
            "fit together: op(A) is 1 x 6, not 2 x 6");
}

TEST_F(VerifyRing, OtherOutputs) {
  plans_[1].outputs.front().rows -= 1;
  EXPECT_EQ(error(), "rank 1: its outputs are not those of tpsp/gemm_rs");
  plans_[1].outputs.clear();
  EXPECT_EQ(error(), "rank 1: its outputs are not those of tpsp/gemm_rs");
  plans_[1].outputs = workload_.outputs;
  plans_[1].portion = Portion::compute_only;
  EXPECT_EQ(error(), "rank 1: its outputs are not those of tpsp/gemm_rs");
}

TEST_F(VerifyRing, OtherTensors) {
  plans_[2].tensors[1].rows += 1;
  EXPECT_EQ(error(), "rank 2: its tensors do not begin with those of tpsp/gemm_rs");
  plans_[2].tensors[1].rows -= 1;
  plans_[2].workload_tensors += 1;  // a scratch buffer that is not counted as one
  EXPECT_EQ(error(), "rank 2: its tensors do not begin with those of tpsp/gemm_rs");
  plans_[2].workload_tensors -= 1;
  plans_[2].tensors.resize(2);
  EXPECT_EQ(error(), "rank 2: its tensors do not begin with those of tpsp/gemm_rs");
}

TEST_F(VerifyRing, PlansOfOtherRanks) {
  std::swap(plans_[0], plans_[1]);
  EXPECT_EQ(error(), "plan 0 of 3 says rank 1 of 3");
  plans_.pop_back();
  EXPECT_EQ(error(), "2 plans for 3 ranks");
}

TEST_F(VerifyRing, TooFewBytes) {
  for (Plan& plan : plans_) {
    for (Message& message : plan.messages) message.wire_bytes = 0;
  }
  EXPECT_EQ(error(), "rank 0 sends 0 bytes, where 256 are the least");
}

/// Builds by hand what no implementation makes; tensors a and b of 8 rows, all of it input.
class VerifyByHand : public testing::Test {
 protected:
  VerifyByHand() {
    workload_.ranks = 2;
    for (const char* name : {"a", "b"}) workload_.tensors.push_back({name, 8, 4, DType::f32});
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      builders_.push_back(std::make_unique<PlanBuilder>(workload_, rank));
    }
  }
  [[nodiscard]] View rows(TensorId id, std::int32_t row, std::int32_t count) const {
    return rows_of(id, workload_.tensors[id], row, count);
  }
  void send(std::int32_t rank, Lane lane, const View& view) {
    builder(rank).exchange(lane, std::array{PlanBuilder::Transfer{true, 1 - rank, view}});
  }
  void receive(std::int32_t rank, Lane lane, const View& view) {
    builder(rank).exchange(lane, std::array{PlanBuilder::Transfer{false, 1 - rank, view}});
  }
  PlanBuilder& builder(std::int32_t rank) { return *builders_[static_cast<std::size_t>(rank)]; }
  std::vector<Plan> take() {
    std::vector<Plan> plans;
    for (const auto& builder : builders_) {
      plans.push_back(builder->take({rows(0, 0, 8), rows(1, 0, 8)}, {}));
    }
    return plans;
  }
  [[nodiscard]] std::string error() { return error_of(take(), workload_); }

  Workload workload_;
  std::vector<std::unique_ptr<PlanBuilder>> builders_;
};

/// Rank 1 sends what rank 0 answers, and then something that is made of the answer; or first what
/// is made of the answer.
TEST_F(VerifyByHand, ExchangesReversedOnOneRank) {
  const auto build = [&](bool reversed) {
    receive(0, Lane::gather, rows(0, 0, 2));
    builder(0).compute(Copy{rows(0, 4, 2), rows(0, 0, 2)});
    send(0, Lane::gather, rows(0, 4, 2));
    receive(0, Lane::gather, rows(1, 0, 2));
    if (!reversed) send(1, Lane::gather, rows(0, 0, 2));
    receive(1, Lane::gather, rows(1, 0, 2));
    builder(1).compute(Copy{rows(1, 4, 2), rows(1, 0, 2)});
    send(1, Lane::gather, rows(1, 4, 2));
    if (reversed) send(1, Lane::gather, rows(0, 0, 2));
    std::vector<Plan> plans = take();
    builders_.clear();
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      builders_.push_back(std::make_unique<PlanBuilder>(workload_, rank));
    }
    return plans;
  };
  EXPECT_EQ(error_of(build(false), workload_), "");
  const std::string text = error_of(build(true), workload_);
  EXPECT_TRUE(contains(text, "deadlock: "));
  EXPECT_TRUE(contains(text,
                       "rank 0 op 1 (compute lane: copy a[4:6, :] = a[0:2, :]) waits for "
                       "rank 1 op 2 (gather lane: exchange #1 send b[4:6, :] to 0) waits for "
                       "rank 1 op 1 (compute lane: copy b[4:6, :] = b[0:2, :]) waits for "
                       "rank 0 op 2 (gather lane: exchange #1 send a[4:6, :] to 1)"));
}

/// Each rank's gather lane waits for a message that the other sends only after its own arrives.
TEST_F(VerifyByHand, ADeadlockNamesEveryLaneOfItsCircle) {
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    receive(rank, Lane::gather, rows(0, 0, 2));
    builder(rank).compute(Copy{rows(0, 4, 2), rows(0, 0, 2)});
    send(rank, Lane::gather, rows(0, 4, 2));
  }
  EXPECT_EQ(error(),
            "deadlock: rank 0 op 1 (compute lane: copy a[4:6, :] = a[0:2, :]) waits for rank 1 op "
            "2 (gather lane: exchange #1 send a[4:6, :] to 0) waits for rank 1 op 1 (compute lane: "
            "copy a[4:6, :] = a[0:2, :]) waits for rank 0 op 2 (gather lane: exchange #1 send "
            "a[4:6, :] to 1) waits for itself");
}

/// Rank 0 sends its second block after an exchange that ends with rank 1's answer to the first one;
/// rank 1 receives both at once.
TEST_F(VerifyByHand, AJointExchangeThatWaitsForItself) {
  using Transfer = PlanBuilder::Transfer;
  builder(0).exchange(Lane::gather, std::array{Transfer{true, 1, rows(0, 0, 2)},
                                               Transfer{false, 1, rows(1, 0, 2)}});
  send(0, Lane::gather, rows(0, 2, 2));
  builder(1).exchange(Lane::gather, std::array{Transfer{false, 0, rows(0, 0, 2)},
                                               Transfer{false, 0, rows(0, 2, 2)}});
  builder(1).compute(Copy{rows(1, 4, 2), rows(0, 0, 2)});
  send(1, Lane::gather, rows(1, 4, 2));
  const std::vector<Plan> plans = take();
  EXPECT_EQ(error_of(plans, workload_), "");
  const std::string text = error_of(plans, workload_, MessageCompletion::joint);
  EXPECT_TRUE(contains(text, "deadlock: "));
  EXPECT_TRUE(contains(text, "rank 0 op 0 (gather lane: exchange #0 send a[0:2, :] to 1"));
  EXPECT_TRUE(contains(text, "rank 1 op 0 (gather lane: exchange #0 receive a[0:2, :] from 0"));
  EXPECT_TRUE(contains(text, " waits for itself"));
}

/// Rank 1 comes to the collectives of two lanes in the other order.
TEST_F(VerifyByHand, ADeadlockOfCollectives) {
  const Collective on_a{CollectiveKind::all_gather, rows(1, 0, 1), rows(0, 0, 2)};
  const Collective on_b{CollectiveKind::all_gather, rows(1, 1, 1), rows(0, 0, 2)};
  builder(0).collective(Lane::gather, on_a);
  builder(0).collective(Lane::scatter, on_b);
  builder(1).collective(Lane::scatter, on_b);
  builder(1).collective(Lane::gather, on_a);
  const std::string text = error();
  EXPECT_TRUE(contains(text, "deadlock: "));
  EXPECT_TRUE(contains(text, "rank 0 op 0 (gather lane: all_gather a[0:2, :] <- b[0:1, :])"));
  EXPECT_TRUE(contains(text, "rank 1 op 0 (scatter lane: all_gather a[0:2, :] <- b[1:2, :])"));
}

TEST_F(VerifyByHand, CollectivesThatDisagree) {
  builder(0).collective(Lane::scatter, {CollectiveKind::all_gather, rows(1, 0, 1), rows(0, 0, 2)});
  builder(1).collective(Lane::scatter, {CollectiveKind::all_gather, rows(1, 0, 2), rows(0, 0, 4)});
  EXPECT_EQ(error(),
            "rank 0 op 0 (scatter lane: all_gather a[0:2, :] <- b[0:1, :]) meets rank 1 op 0 "
            "(scatter lane: all_gather a[0:4, :] <- b[0:2, :]), which is another collective");
}

TEST_F(VerifyByHand, ACollectiveOfOneRank) {
  builder(1).collective(Lane::scatter, {CollectiveKind::all_gather, rows(1, 0, 1), rows(0, 0, 2)});
  EXPECT_EQ(error(),
            "rank 1 op 0 (scatter lane: all_gather a[0:2, :] <- b[0:1, :]): rank 0 has no such "
            "collective on its scatter lane");
}

TEST_F(VerifyByHand, CollectivesWithViewsThatDoNotFit) {
  const auto error_with = [&](const Collective& collective) {
    for (std::int32_t rank = 0; rank < 2; ++rank)
      builder(rank).collective(Lane::scatter, collective);
    std::string text = error();
    builders_.clear();
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      builders_.push_back(std::make_unique<PlanBuilder>(workload_, rank));
    }
    return text;
  };
  View strided = rows(1, 0, 2);
  strided.cols = 2;
  EXPECT_TRUE(contains(error_with({CollectiveKind::all_gather, strided, rows(0, 0, 2)}),
                       "has a strided view"));
  EXPECT_TRUE(contains(error_with({CollectiveKind::reduce_scatter, rows(0, 0, 4), rows(1, 0, 1)}),
                       "has 64 and 16 bytes, not 2 times as many"));
  EXPECT_TRUE(contains(error_with({CollectiveKind::reduce_scatter, rows(0, 0, 4), rows(0, 2, 2)}),
                       "sends from where it receives, and not from its own place"));
  EXPECT_TRUE(contains(error_with({CollectiveKind::all_gather, rows(0, 2, 2), rows(0, 0, 4)}),
                       "rank 0 op 0"));
  EXPECT_TRUE(contains(error_with({CollectiveKind::all_to_all, rows(0, 0, 4), rows(1, 0, 2)}),
                       "has 16 and 8 elements, not 2 equal blocks each"));
  View odd = rows(0, 0, 1);
  odd.cols = 3;
  View odd_receive = odd;
  odd_receive.tensor = 1;
  EXPECT_TRUE(contains(error_with({CollectiveKind::all_to_all, odd, odd_receive}),
                       "has 3 and 3 elements, not 2 equal blocks each"));
  EXPECT_TRUE(contains(error_with({CollectiveKind::all_to_all, rows(0, 0, 4), rows(0, 2, 4)}),
                       "sends from where it receives"));
  EXPECT_TRUE(contains(error_with({CollectiveKind::all_reduce, rows(0, 0, 4), rows(1, 0, 2)}),
                       "has 4 x 4 and 2 x 4 elements, not the same shape"));
  EXPECT_TRUE(contains(error_with({CollectiveKind::all_reduce, rows(0, 0, 4), rows(0, 0, 4)}),
                       "sends from where it receives"));
  EXPECT_EQ(error_with({CollectiveKind::all_reduce, odd, odd_receive}), "");
}

TEST_F(VerifyByHand, ACollectiveBetweenTwoTypes) {
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const View narrow{
        .tensor = builder(rank).scratch("narrow", 4, 4, DType::bf16), .rows = 4, .cols = 4};
    builder(rank).collective(Lane::scatter, {CollectiveKind::all_reduce, rows(0, 0, 4), narrow});
  }
  EXPECT_TRUE(contains(error(), "has views of two types"));
}

TEST_F(VerifyByHand, CollectivesOfTwoKindsDisagree) {
  builder(0).collective(Lane::scatter, {CollectiveKind::all_to_all, rows(0, 0, 2), rows(1, 0, 2)});
  builder(1).collective(Lane::scatter, {CollectiveKind::all_reduce, rows(0, 0, 2), rows(1, 0, 2)});
  EXPECT_EQ(error(),
            "rank 0 op 0 (scatter lane: all_to_all b[0:2, :] <- a[0:2, :]) meets rank 1 op 0 "
            "(scatter lane: all_reduce b[0:2, :] <- a[0:2, :]), which is another collective");
}

TEST_F(VerifyByHand, MessagesOfOneExchangeThatMeet) {
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    builder(rank).exchange(Lane::gather,
                           std::array{PlanBuilder::Transfer{true, 1 - rank, rows(0, 0, 2)},
                                      PlanBuilder::Transfer{false, 1 - rank, rows(0, 1, 2)}});
  }
  EXPECT_TRUE(contains(error(),
                       "rank 0 op 0 (gather lane: exchange #0 send a[0:2, :] to 1, #1 receive "
                       "a[1:3, :] from 1) receives into what another of its messages uses"));
}

/// Dependencies other than PlanBuilder's, which imply what is needed.
TEST_F(VerifyByHand, OrderThroughOtherOpsCounts) {
  builder(0).compute(Copy{rows(1, 0, 1), rows(0, 0, 1)});
  builder(0).collective(Lane::scatter, {CollectiveKind::all_gather, rows(1, 0, 1), rows(0, 2, 2)});
  builder(0).compute(Copy{rows(1, 4, 1), rows(0, 2, 1)});
  builder(0).collective(Lane::gather, {CollectiveKind::all_gather, rows(1, 0, 1), rows(1, 6, 2)});
  builder(1).collective(Lane::scatter, {CollectiveKind::all_gather, rows(1, 0, 1), rows(0, 2, 2)});
  builder(1).collective(Lane::gather, {CollectiveKind::all_gather, rows(1, 0, 1), rows(1, 6, 2)});
  std::vector<Plan> plans = take();
  Op& last = plans[0].ops[3];
  ASSERT_EQ(last.dependencies, 1U);
  Dependency& waits = plans[0].dependencies[last.first_dependency];
  ASSERT_EQ(waits, (Dependency{0, kWholeOp}));
  waits.op = 2;  // behind 1, which waits for 0; and behind 0 on its lane
  EXPECT_EQ(error_of(plans, workload_), "");
  waits.op = 1;
  EXPECT_EQ(error_of(plans, workload_), "");
  last.dependencies = 0;
  EXPECT_TRUE(contains(error_of(plans, workload_), "does not wait for rank 0 op 0"));
}

/// One stage of two rows per rank, whose output moves by `kind`; tensors of four floats a row.
class VerifyOutputs : public testing::TestWithParam<std::int32_t> {
 protected:
  VerifyOutputs() {
    workload_.name = "by hand";
    workload_.ranks = GetParam();
    for (const char* name : {"partial", "result"}) {
      workload_.tensors.push_back({name, 2 * workload_.ranks, 4, DType::f32});
    }
    workload_.stages.push_back({.name = "stage", .axis = {workload_.ranks, 2}, .phases = {}});
    workload_.outputs = {whole(1, workload_.tensors[1])};
  }
  /// Plans in which the collective runs on `rows` rows, and the rest of the result is copied.
  [[nodiscard]] std::vector<Plan> plans(CollectiveKind kind, std::int32_t rows) const {
    std::vector<Plan> plans;
    for (std::int32_t rank = 0; rank < workload_.ranks; ++rank) {
      PlanBuilder builder(workload_, rank);
      const auto part = [&](TensorId id, std::int32_t row, std::int32_t count) {
        return rows_of(id, workload_.tensors[id], row, count);
      };
      builder.collective(Lane::scatter, {kind, part(0, 0, rows), part(1, 0, rows)});
      if (const std::int32_t rest = 2 * workload_.ranks - rows; rest > 0) {
        builder.compute(Copy{part(1, rows, rest), part(0, rows, rest)});
      }
      plans.push_back(builder.take({whole(0, workload_.tensors[0])}, workload_.outputs));
    }
    return plans;
  }
  [[nodiscard]] std::int64_t slice() const { return 2 * 4 * 4; }
  [[nodiscard]] std::int64_t others() const { return workload_.ranks - 1; }

  Workload workload_;
};

TEST_P(VerifyOutputs, AnAllToAllSendsABlockToEveryOther) {
  workload_.stages[0].all_to_all = AllToAll{0, 1};
  const std::int32_t all = 2 * workload_.ranks;
  for (const PlanFacts& facts : verify(plans(CollectiveKind::all_to_all, all), workload_)) {
    EXPECT_EQ(facts.bytes_sent, others() * slice());
    EXPECT_EQ(facts.minimum_bytes, facts.bytes_sent);
  }
  EXPECT_EQ(error_of(plans(CollectiveKind::all_to_all, workload_.ranks), workload_),
            fmt::format("rank 0 sends {} bytes, where {} are the least", others() * slice() / 2,
                        others() * slice()));
}

TEST_P(VerifyOutputs, AnAllReduceSendsEverySliceTwice) {
  workload_.stages[0].all_reduce = AllReduce{0, 1};
  const std::int32_t all = 2 * workload_.ranks;
  for (const PlanFacts& facts : verify(plans(CollectiveKind::all_reduce, all), workload_)) {
    EXPECT_EQ(facts.bytes_sent, 2 * others() * slice());
    EXPECT_EQ(facts.minimum_bytes, facts.bytes_sent);
  }
  EXPECT_EQ(error_of(plans(CollectiveKind::all_reduce, workload_.ranks), workload_),
            fmt::format("rank 0 sends {} bytes, where {} are the least", others() * slice(),
                        2 * others() * slice()));
}

INSTANTIATE_TEST_SUITE_P(Ranks, VerifyOutputs, testing::Values(2, 3, 4));

std::vector<Plan> quiet_plans(std::string_view implementation, const Workload& workload) {
  std::vector<Plan> quiet;
  for (const Plan& plan : plans_of(implementation, workload)) {
    quiet.push_back(without_communication(plan));
  }
  return quiet;
}

TEST(VerifyWithoutCommunication, TakesWhatCommunicationWroteForWritten) {
  const Workload workload = small_workload("tpsp/gemm_rs", 2, 4);
  std::vector<Plan> quiet = quiet_plans("plain", workload);
  EXPECT_EQ(error_of(quiet, workload), "");
  EXPECT_EQ(verify(quiet, workload).front().minimum_bytes, 0);
  for (Plan& plan : quiet) plan.inputs.pop_back();  // what the reduce-scatter received
  EXPECT_EQ(
      error_of(quiet, workload),
      "rank 0: nothing writes result[0:4, :] of output result[0:4, :]; no op writes that tensor");
}

TEST(VerifyWithoutCommunication, MissesAComputeOpThatIsGone) {
  const Workload workload = small_workload("tpsp/mlp", 2, 4);
  const std::vector<Plan> sound = quiet_plans("commfuse:m=2", workload);
  ASSERT_EQ(error_of(sound, workload), "");
  std::vector<Plan> damaged = sound;
  damaged[1].ops.pop_back();
  EXPECT_TRUE(contains(error_of(damaged, workload), "rank 1: nothing writes result[2:4, :]"));
  damaged = sound;
  damaged[0].ops.erase(damaged[0].ops.begin());  // H of the own slice; nothing depends on it by id
  EXPECT_TRUE(contains(error_of(damaged, workload), "reads H[0:2, :], which nothing wrote before"));
}

}  // namespace
}  // namespace commfuse
