// SPDX-License-Identifier: Apache-2.0
// The exact plans of stages whose output is an all-to-all or an all-reduce, and of those that take
// the pieces.
#include <gtest/gtest.h>

#include "tests/impls/small_workloads.h"

namespace commfuse {
namespace {

// Rank 0 of 3 sends to 2, then 1, so that its pieces come from 1, then 2; those are attended with
// in that order, and results sent to 1, then 2; so O comes from 2, then 1. Nothing waits for what
// comes later, and own slices go straight to where they stay.
TEST(Lowering, ExchangesAlternateInDirection) {
  const Workload workload = small_workload("ulysses/block", 3, 2);
  EXPECT_EQ(plan_text("commfuse:m=1", workload, 0), R"(
rank 0 of 3: 23 ops, 16 messages, 0 bytes of scratch
     0  compute  k  gemm K_sent[4:6, :] = X[0:2, :] * Wk[8:12, :]^T
     1  scatter  k  exchange #0 send K_sent[4:6, :] to 2, #1 receive K[2:4, :] from 1  after 0
     2  compute  k  gemm K_sent[2:4, :] = X[0:2, :] * Wk[4:8, :]^T
     3  scatter  k  exchange #2 send K_sent[2:4, :] to 1, #3 receive K[4:6, :] from 2  after 2
     4  compute  v  gemm V_sent[4:6, :] = X[0:2, :] * Wv[8:12, :]^T
     5  scatter  v  exchange #4 send V_sent[4:6, :] to 2, #5 receive V[2:4, :] from 1  after 4
     6  compute  v  gemm V_sent[2:4, :] = X[0:2, :] * Wv[4:8, :]^T
     7  scatter  v  exchange #6 send V_sent[2:4, :] to 1, #7 receive V[4:6, :] from 2  after 6
     8  compute  q  gemm Q_sent[4:6, :] = X[0:2, :] * Wq[8:12, :]^T
     9  scatter  q  exchange #8 send Q_sent[4:6, :] to 2, #9 receive Q[2:4, :] from 1  after 8
    10  compute  q  gemm Q_sent[2:4, :] = X[0:2, :] * Wq[4:8, :]^T
    11  scatter  q  exchange #10 send Q_sent[2:4, :] to 1, #11 receive Q[4:6, :] from 2  after 10
    12  compute  k  gemm K[0:2, :] = X[0:2, :] * Wk[0:4, :]^T
    13  compute  v  gemm V[0:2, :] = X[0:2, :] * Wv[0:4, :]^T
    14  compute  attention  attention O_sent[2:4, :] = softmax(Q[2:4, :] * K[0:6, :]^T) * V[0:6, :], heads 1/1  after #1, #3, #5, #7, #9
    15  scatter  attention  exchange #12 send O_sent[2:4, :] to 1, #13 receive O[4:6, :] from 2  after 14
    16  compute  attention  attention O_sent[4:6, :] = softmax(Q[4:6, :] * K[0:6, :]^T) * V[0:6, :], heads 1/1  after #11
    17  scatter  attention  exchange #14 send O_sent[4:6, :] to 2, #15 receive O[2:4, :] from 1  after 16
    18  compute  q  gemm Q[0:2, :] = X[0:2, :] * Wq[0:4, :]^T
    19  compute  attention  attention O[0:2, :] = softmax(Q[0:2, :] * K[0:6, :]^T) * V[0:6, :], heads 1/1
    20  compute  out  gemm Y[0:2, :] = O[0:2, :] * Wo[0:8, 0:4]^T
    21  compute  out  gemm Y[0:2, :] = O[4:6, :] * Wo[0:8, 8:12]^T + Y[0:2, :]  after #13
    22  compute  out  gemm Y[0:2, :] = O[2:4, :] * Wo[0:8, 4:8]^T + Y[0:2, :]  after #15
)");
}

// No copy waits for an all-to-all of K or V before V and Q have been computed.
TEST(Lowering, SlicedExchangesAreUnpackedWhenTheyAreNeeded) {
  const Workload workload = small_workload("ulysses/block", 2, 2);
  EXPECT_EQ(plan_text("sliced:n=2", workload, 1), R"(
rank 1 of 2: 28 ops, 0 messages, 512 bytes of scratch
     0  compute  k  gemm k.partials[0:1, :] x 2 every 1 rows = X[0:1, :] * Wk[0:4, :] x 2 every 4 rows^T
     1  scatter  k  all_to_all k.landed[0:2, :] <- k.partials[0:2, :]  after 0
     2  compute  k  gemm k.partials[2:3, :] x 2 every 1 rows = X[1:2, :] * Wk[0:4, :] x 2 every 4 rows^T
     3  scatter  k  all_to_all k.landed[2:4, :] <- k.partials[2:4, :]  after 2
     4  compute  v  gemm v.partials[0:1, :] x 2 every 1 rows = X[0:1, :] * Wv[0:4, :] x 2 every 4 rows^T
     5  scatter  v  all_to_all v.landed[0:2, :] <- v.partials[0:2, :]  after 4
     6  compute  v  gemm v.partials[2:3, :] x 2 every 1 rows = X[1:2, :] * Wv[0:4, :] x 2 every 4 rows^T
     7  scatter  v  all_to_all v.landed[2:4, :] <- v.partials[2:4, :]  after 6
     8  compute  q  gemm q.partials[0:1, :] x 2 every 1 rows = X[0:1, :] * Wq[0:4, :] x 2 every 4 rows^T
     9  scatter  q  all_to_all q.landed[0:2, :] <- q.partials[0:2, :]  after 8
    10  compute  q  gemm q.partials[2:3, :] x 2 every 1 rows = X[1:2, :] * Wq[0:4, :] x 2 every 4 rows^T
    11  scatter  q  all_to_all q.landed[2:4, :] <- q.partials[2:4, :]  after 10
    12  compute  k  copy K[0:1, :] x 2 every 2 rows = k.landed[0:1, :] x 2 every 1 rows  after 1
    13  compute  k  copy K[1:2, :] x 2 every 2 rows = k.landed[2:3, :] x 2 every 1 rows  after 3
    14  compute  v  copy V[0:1, :] x 2 every 2 rows = v.landed[0:1, :] x 2 every 1 rows  after 5
    15  compute  v  copy V[1:2, :] x 2 every 2 rows = v.landed[2:3, :] x 2 every 1 rows  after 7
    16  compute  q  copy Q[0:1, :] x 2 every 2 rows = q.landed[0:1, :] x 2 every 1 rows  after 9
    17  compute  attention  attention attention.partials[0:1, :] x 2 every 1 rows = softmax(Q[0:1, :] x 2 every 2 rows * K[0:4, :]^T) * V[0:4, :], heads 1/1
    18  scatter  attention  all_to_all attention.landed[0:2, :] <- attention.partials[0:2, :]  after 17
    19  compute  q  copy Q[1:2, :] x 2 every 2 rows = q.landed[2:3, :] x 2 every 1 rows  after 11
    20  compute  attention  attention attention.partials[2:3, :] x 2 every 1 rows = softmax(Q[1:2, :] x 2 every 2 rows * K[0:4, :]^T) * V[0:4, :], heads 1/1
    21  scatter  attention  all_to_all attention.landed[2:4, :] <- attention.partials[2:4, :]  after 20
    22  compute  attention  copy O[0:1, :] x 2 every 2 rows = attention.landed[0:1, :] x 2 every 1 rows  after 18
    23  compute  out  gemm Y[0:1, :] = O[0:1, :] * Wo[0:8, 0:4]^T
    24  compute  out  gemm Y[0:1, :] = O[2:3, :] * Wo[0:8, 4:8]^T + Y[0:1, :]
    25  compute  attention  copy O[1:2, :] x 2 every 2 rows = attention.landed[2:3, :] x 2 every 1 rows  after 21
    26  compute  out  gemm Y[1:2, :] = O[1:2, :] * Wo[0:8, 0:4]^T
    27  compute  out  gemm Y[1:2, :] = O[3:4, :] * Wo[0:8, 4:8]^T + Y[1:2, :]
)");
}

// Gemms write into the blocks that are sent, and add over the blocks that were received: no copies.
TEST(Lowering, PlainExchanges) {
  const Workload workload = small_workload("ulysses/block", 2, 2);
  EXPECT_EQ(plan_text("plain", workload, 1), R"(
rank 1 of 2: 10 ops, 0 messages, 0 bytes of scratch
     0  compute  k  gemm K_sent[0:2, :] x 2 every 2 rows = X[0:2, :] * Wk[0:4, :] x 2 every 4 rows^T
     1  compute  k  all_to_all K[0:4, :] <- K_sent[0:4, :]
     2  compute  v  gemm V_sent[0:2, :] x 2 every 2 rows = X[0:2, :] * Wv[0:4, :] x 2 every 4 rows^T
     3  compute  v  all_to_all V[0:4, :] <- V_sent[0:4, :]
     4  compute  q  gemm Q_sent[0:2, :] x 2 every 2 rows = X[0:2, :] * Wq[0:4, :] x 2 every 4 rows^T
     5  compute  q  all_to_all Q[0:4, :] <- Q_sent[0:4, :]
     6  compute  attention  attention O_sent[0:4, :] = softmax(Q[0:4, :] * K[0:4, :]^T) * V[0:4, :], heads 1/1
     7  compute  attention  all_to_all O[0:4, :] <- O_sent[0:4, :]
     8  compute  out  gemm Y[0:2, :] = O[0:2, :] * Wo[0:8, 0:4]^T
     9  compute  out  gemm Y[0:2, :] = O[2:4, :] * Wo[0:8, 4:8]^T + Y[0:2, :]
)");
}

/// A weight gradient that every rank needs, and a local stage after it.
Workload reducing_workload(std::int32_t ranks) {
  Workload workload;
  workload.name = "reducing";
  workload.ranks = ranks;
  const Axis axis{.ranks = ranks, .rows = 2};
  const std::int32_t rows = 2 * ranks;
  workload.tensors = {{"partial", rows, 4, DType::f32},
                      {"sum", rows, 4, DType::f32},
                      {"x", rows, 4, DType::f32},
                      {"y", rows, 4, DType::f32}};
  const auto copy = [=, tensors = workload.tensors](TensorId to) -> Phase {
    return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
      return {Copy{target.d.value_or(tile_rows(to, tensors[to], axis, tile)),
                   tile_rows(2, tensors[2], axis, tile)}};
    };
  };
  workload.stages = {{.name = "reduce",
                      .axis = axis,
                      .phases = {copy(0)},
                      .all_reduce = AllReduce{.partial = 0, .result = 1}},
                     {.name = "local", .axis = axis, .phases = {copy(3)}}};
  workload.outputs = {whole(1, workload.tensors[1])};
  workload.inputs = [](std::int32_t) { return std::vector<Fill>{}; };
  return workload;
}

/// y = x, each rank its own slice.
Workload local_workload(std::int32_t ranks) {
  Workload workload;
  workload.name = "test/local";
  workload.ranks = ranks;
  for (const char* name : {"x", "y"}) workload.tensors.push_back({name, 2 * ranks, 8, DType::f32});
  const Axis axis{.ranks = ranks, .rows = 2};
  Stage stage{.name = "own", .axis = axis, .phases = {}};
  stage.phases = {[=, tensor = workload.tensors[0]](const Tile& tile, const Target&) {
    return std::vector<Compute>{
        Copy{tile_rows(1, tensor, axis, tile), tile_rows(0, tensor, axis, tile)}};
  }};
  stage.own_slice = true;
  workload.stages = {stage};
  workload.inputs = [](std::int32_t) { return std::vector<Fill>{}; };
  return workload;
}

TEST(Lowering, OwnSlicesAreComputedWhereTheyBelong) {
  const Workload workload = local_workload(3);
  for (const std::string_view name : {"plain", "bulk", "commfuse", "compute_only"}) {
    const std::vector<Plan> plans = build_plans(make_implementation(name, workload), workload);
    ASSERT_EQ(plans[1].ops.size(), 1U) << name;
    EXPECT_EQ(std::get<Copy>(plans[1].ops[0].work).d, rows_of(1, workload.tensors[1], 2, 2))
        << name;
  }
}

TEST(Lowering, AllReduceIsReduceScatterThenGather) {
  EXPECT_EQ(plan_text("commfuse:order=direct:m=1", reducing_workload(3), 1), R"(
rank 1 of 3: 9 ops, 8 messages, 64 bytes of scratch
     0  compute  reduce  copy partial[0:2, :] = x[0:2, :]
     1  scatter  reduce  exchange #0 send partial[0:2, :] to 0, #1 receive reduce.landing[0:2, :] from 2  after 0
     2  compute  reduce  copy partial[4:6, :] = x[4:6, :]
     3  scatter  reduce  exchange #2 send partial[4:6, :] to 2, #3 receive reduce.landing[2:4, :] from 0  after 2
     4  compute  local  copy y[0:6, :] = x[0:6, :]
     5  compute  reduce  copy sum[2:4, :] = x[2:4, :]
     6  compute  reduce  accumulate sum[2:4, :] = sum[2:4, :] + reduce.landing[0:2, :] x 2 every 2 rows  after #1, #3
     7  gather   reduce  exchange #4 send sum[2:4, :] to 2, #5 receive sum[0:2, :] from 0  after 6
     8  gather   reduce  exchange #6 send sum[2:4, :] to 0, #7 receive sum[4:6, :] from 2
)");
}

TEST(Lowering, SlicedAllReduce) {
  EXPECT_EQ(plan_text("sliced:n=2", reducing_workload(2), 1), R"(
rank 1 of 2: 7 ops, 0 messages, 128 bytes of scratch
     0  compute  reduce  copy reduce.partials[0:1, :] x 2 every 1 rows = x[0:1, :] x 2 every 2 rows
     1  scatter  reduce  all_reduce reduce.landed[0:2, :] <- reduce.partials[0:2, :]  after 0
     2  compute  reduce  copy reduce.partials[2:3, :] x 2 every 1 rows = x[1:2, :] x 2 every 2 rows
     3  scatter  reduce  all_reduce reduce.landed[2:4, :] <- reduce.partials[2:4, :]  after 2
     4  compute  local  copy y[0:4, :] = x[0:4, :]
     5  compute  reduce  copy sum[0:1, :] x 2 every 2 rows = reduce.landed[0:1, :] x 2 every 1 rows  after 1
     6  compute  reduce  copy sum[1:2, :] x 2 every 2 rows = reduce.landed[2:3, :] x 2 every 1 rows  after 3
)");
}

}  // namespace
}  // namespace commfuse
