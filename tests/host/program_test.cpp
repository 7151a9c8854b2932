// SPDX-License-Identifier: Apache-2.0
#include "harness/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/host/hand_plans.h"

namespace commfuse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Program program_of(const Emit& emit) { return Program(hand_plan(0, 2, emit)); }

EventId message(const Program& program, MessageId m) {
  return static_cast<EventId>(program.plan().ops.size() + m);
}

TEST(Program, ListsComputeAndTransfersApart) {
  const Program program = program_of([](PlanBuilder& plan) {
    plan.compute(copy_slot(1, 0));
    const PlanBuilder::Transfer transfers[] = {send(1, 1), receive(1, 2)};
    plan.exchange(Lane::scatter, transfers);
    plan.compute(copy_slot(3, 2));
    plan.collective(Lane::compute, {CollectiveKind::all_gather, slots(3), slots(4, 2)});
  });
  EXPECT_TRUE(program.communicates());
  EXPECT_THAT(program.compute_lane(), ElementsAre(0, 2, 3));
  EXPECT_THAT(program.transfers(Lane::scatter),
              ElementsAre(message(program, 0), message(program, 1)));
  EXPECT_THAT(program.transfers(Lane::compute), ElementsAre(3));
  EXPECT_THAT(program.transfers(Lane::gather), IsEmpty());
  EXPECT_EQ(program.spans().size(), 5U);
  EXPECT_EQ(program.event(1).kind, EventKind::none);
}

TEST(Program, TellsModelFromElementwiseAndOverhead) {
  const View one{.rows = 1, .cols = 2};
  const View two{.row = 1, .rows = 1, .cols = 2};
  const View gate{.row = 2, .rows = 1, .cols = 4};
  const auto kind = [](const Compute& op) {
    return program_of([&](PlanBuilder& plan) { plan.compute(op); }).spans()[0].kind;
  };
  EXPECT_EQ(kind(Gemm{.d = {.row = 2, .rows = 1, .cols = 1}, .a = one, .b = two, .c = {}}),
            SpanKind::model);
  EXPECT_EQ(kind(Attention{.o = one, .q = two, .k = two, .v = two, .head_dim = 2}),
            SpanKind::model);
  const View three{.row = 3, .rows = 1, .cols = 2};
  EXPECT_EQ(kind(AttentionGradient{one, gate, three, two, two, two, two}), SpanKind::model);
  EXPECT_EQ(kind(Elementwise{one, two}), SpanKind::elementwise);
  EXPECT_EQ(kind(ActivationGradient{gate, one, gate, Activation::swiglu}), SpanKind::elementwise);
  EXPECT_EQ(kind(Norm{one, two, two}), SpanKind::elementwise);
  EXPECT_EQ(kind(NormGradient{one, two, two, two}), SpanKind::elementwise);
  EXPECT_EQ(kind(GammaGradient{one, two, two}), SpanKind::elementwise);
  EXPECT_EQ(kind(Adam{one, two, one, two, one, two, one, {}}), SpanKind::elementwise);
  EXPECT_EQ(kind(Residual{one, one, two}), SpanKind::elementwise);
  EXPECT_EQ(kind(Accumulate{one, one, two}), SpanKind::overhead);
  EXPECT_EQ(kind(Copy{one, two}), SpanKind::overhead);
  const Program rounding = program_of([&](PlanBuilder& plan) {
    const TensorId narrow = plan.scratch("narrow", 1, 2, DType::bf16);
    plan.compute(Copy{{.tensor = narrow, .rows = 1, .cols = 2}, two});
  });
  EXPECT_EQ(rounding.spans()[0].kind, SpanKind::elementwise);
}

TEST(Program, MessagesWaitForTheirOwnDependenciesOnly) {
  const Program program = program_of([](PlanBuilder& plan) {
    plan.compute(copy_slot(1, 0));
    const PlanBuilder::Transfer transfers[] = {send(1, 1), receive(1, 2)};
    plan.exchange(Lane::scatter, transfers);
    plan.compute(copy_slot(3, 2));
  });
  EXPECT_THAT(program.dependencies(message(program, 0)), ElementsAre(0));
  EXPECT_THAT(program.dependencies(message(program, 1)), IsEmpty());
  EXPECT_THAT(program.dependencies(2), ElementsAre(message(program, 1)));
  EXPECT_TRUE(program.event(0).feeds_transport);
  EXPECT_FALSE(program.event(2).feeds_transport);
}

TEST(Program, TheNextIterationWaitsForWhatStillUsesItsViews) {
  const Program program = program_of([](PlanBuilder& plan) {
    plan.compute(copy_slot(1, 0));
    const PlanBuilder::Transfer transfers[] = {send(1, 1), receive(1, 2)};
    plan.exchange(Lane::scatter, transfers);
    plan.compute(copy_slot(3, 2));
  });
  // Slot 1 is written again when it has left; slot 2 when it has been read.
  EXPECT_THAT(program.earlier_iteration(0), ElementsAre(message(program, 0)));
  EXPECT_THAT(program.earlier_iteration(message(program, 1)), ElementsAre(2));
  EXPECT_TRUE(program.event(2).feeds_next_transport);
  // The send follows op 0 of its own iteration, which has waited for everything.
  EXPECT_THAT(program.earlier_iteration(message(program, 0)), ElementsAre(message(program, 0)));
  EXPECT_THAT(program.earlier_iteration(2), IsEmpty());
}

TEST(Program, ReadersOfTheSameViewDoNotWaitForEachOther) {
  const Program program = program_of([](PlanBuilder& plan) {
    plan.compute(copy_slot(1, 0));
    const PlanBuilder::Transfer transfers[] = {send(1, 0)};
    plan.exchange(Lane::scatter, transfers);
    plan.compute(copy_slot(2, 0));
  });
  EXPECT_THAT(program.dependencies(message(program, 0)), IsEmpty());
  EXPECT_THAT(program.earlier_iteration(0), IsEmpty());
  EXPECT_THAT(program.earlier_iteration(message(program, 0)), ElementsAre(message(program, 0)));
}

TEST(Program, AReceiveWithoutReaderWaitsForItsPreviousSelf) {
  const Program program = program_of([](PlanBuilder& plan) {
    const PlanBuilder::Transfer transfers[] = {receive(1, 2)};
    plan.exchange(Lane::gather, transfers);
  });
  EXPECT_THAT(program.earlier_iteration(message(program, 0)), ElementsAre(message(program, 0)));
  EXPECT_TRUE(program.event(message(program, 0)).feeds_next_transport);
  EXPECT_FALSE(program.event(message(program, 0)).feeds_transport);
}

TEST(Program, OfTheComputeLaneOnlyTheLastUserCounts) {
  const Program program = program_of([](PlanBuilder& plan) {
    const PlanBuilder::Transfer transfers[] = {receive(1, 2)};
    plan.exchange(Lane::gather, transfers);
    plan.compute(copy_slot(3, 2));
    plan.compute(copy_slot(4, 2));
    plan.compute(copy_slot(5, 6));
  });
  EXPECT_THAT(program.earlier_iteration(message(program, 0)), ElementsAre(2));
}

TEST(Program, ACollectiveOffTheComputeLaneIsATransfer) {
  const Program program = program_of([](PlanBuilder& plan) {
    plan.compute(copy_slot(0, 6));
    plan.collective(Lane::gather, {CollectiveKind::all_gather, slots(0), slots(2, 2)});
    plan.compute(copy_slot(5, 3));
  });
  EXPECT_THAT(program.compute_lane(), ElementsAre(0, 2));
  EXPECT_THAT(program.dependencies(1), ElementsAre(0));
  EXPECT_THAT(program.dependencies(2), ElementsAre(1));
  EXPECT_THAT(program.earlier_iteration(0), ElementsAre(1));
  EXPECT_THAT(program.earlier_iteration(1), ElementsAre(2));
  EXPECT_EQ(program.spans()[1].bytes, kSlotBytes);  // (ranks - 1) blocks
}

TEST(Program, SpansOfCollectivesCountWhatARankSends) {
  const Program program = program_of([](PlanBuilder& plan) {
    plan.collective(Lane::gather, {CollectiveKind::all_to_all, slots(0, 4), slots(4, 4)});
    plan.collective(Lane::scatter, {CollectiveKind::all_reduce, slots(4, 4), slots(0, 4)});
    plan.collective(Lane::gather, {CollectiveKind::reduce_scatter, slots(0, 4), slots(4, 2)});
  });
  EXPECT_EQ(program.spans()[0].bytes, 2 * kSlotBytes);
  EXPECT_EQ(program.spans()[1].bytes, 4 * kSlotBytes);  // half of it, twice
  EXPECT_EQ(program.spans()[2].bytes, 2 * kSlotBytes);
}

TEST(Program, AnExchangeOnTheComputeLaneWaitsForItsTurn) {
  const Program program = program_of([](PlanBuilder& plan) {
    plan.compute(copy_slot(1, 0));
    const PlanBuilder::Transfer transfers[] = {send(1, 6), receive(1, 7)};
    plan.exchange(Lane::compute, transfers);
  });
  EXPECT_THAT(program.compute_lane(), ElementsAre(0));
  EXPECT_THAT(program.dependencies(message(program, 0)), UnorderedElementsAre(0));
  EXPECT_THAT(program.dependencies(message(program, 1)), UnorderedElementsAre(0));
}

}  // namespace
}  // namespace commfuse
