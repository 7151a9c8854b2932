// SPDX-License-Identifier: Apache-2.0
#include "suite/compute.h"

#include <gtest/gtest.h>

#include <vector>

#include "suite/stage.h"

namespace commfuse {
namespace {

/// Six rows times three strips of B of five columns each.
Gemm of_three_strips() {
  return {.d = {.rows = 6, .cols = 5, .strips = 3, .col_step = 8},
          .a = {.rows = 6, .cols = 7},
          .b = {.rows = 5, .cols = 7, .strips = 3, .row_step = 8},
          .c = View{.tensor = 1, .rows = 6, .cols = 5, .strips = 3, .row_step = 6}};
}

std::int64_t counted_pairs(const View& q, std::int32_t tokens) {
  std::int64_t pairs = 0;
  for (std::int32_t s = 0; s < q.strips; ++s) {
    for (std::int32_t i = 0; i < q.rows; ++i) {
      const std::int32_t query = zigzag_position(q.row + s * q.row_step + i, tokens);
      for (std::int32_t key = 0; key < tokens; ++key) {
        if (zigzag_position(key, tokens) <= query) ++pairs;
      }
    }
  }
  return pairs;
}

Attention attention_of(const View& q, std::int32_t tokens, Mask mask) {
  Attention op;
  op.o = op.q = q;
  op.k = op.v = {.tensor = 1, .rows = tokens, .cols = 6};
  op.heads = 4;
  op.kv_heads = 2;
  op.head_dim = 3;
  op.mask = mask;
  return op;
}

AttentionGradient gradient_of(const View& q, std::int32_t tokens, Mask mask) {
  const Attention forward = attention_of(q, tokens, mask);
  AttentionGradient op;
  op.dq = op.d_o = op.q = forward.q;
  op.dk = op.dv = op.k = op.v = forward.k;
  op.heads = forward.heads;
  op.kv_heads = forward.kv_heads;
  op.head_dim = forward.head_dim;
  op.mask = mask;
  return op;
}

TEST(Flops, TheGradientOfAttentionCountsFiveProductsFourOfThemNeeded) {
  for (const Mask mask : {Mask::full, Mask::causal}) {
    for (const View& q : {View{.row = 1, .rows = 6, .cols = 12},
                          View{.row = 2, .rows = 2, .cols = 12, .strips = 3, .row_step = 8}}) {
      const std::int64_t forward = flops(attention_of(q, 24, mask));
      EXPECT_EQ(2 * flops(gradient_of(q, 24, mask)), 5 * forward);
      EXPECT_EQ(model_flops(gradient_of(q, 24, mask)), 2 * forward);
      EXPECT_EQ(model_flops(attention_of(q, 24, mask)), forward);
    }
  }
}

TEST(Flops, CausalAttentionCountsVisiblePairs) {
  for (const std::int32_t tokens : {1, 2, 7, 12}) {
    for (std::int32_t row = 0; row < tokens; ++row) {
      for (std::int32_t rows = 0; row + rows <= tokens; ++rows) {
        const View q{.row = row, .rows = rows, .cols = 12};
        EXPECT_EQ(flops(attention_of(q, tokens, Mask::causal)),
                  4 * 4 * 3 * counted_pairs(q, tokens));
        EXPECT_EQ(flops(attention_of(q, tokens, Mask::full)), 4 * 4 * 3 * rows * tokens);
      }
    }
  }
}

TEST(Flops, CausalAttentionCountsStrips) {
  const View q{.row = 2, .rows = 2, .cols = 12, .strips = 3, .row_step = 8};
  EXPECT_EQ(flops(attention_of(q, 24, Mask::causal)), 4 * 4 * 3 * counted_pairs(q, 24));
}

TEST(Flops, EqualRunsOfPairsCostTheSame) {
  const std::int32_t tokens = 24;
  const Tensor buffer{"Q", tokens, 12, DType::f32};
  const Axis axis{.ranks = 3, .rows = 8, .unit = 2};
  for (std::int32_t peer = 0; peer < 3; ++peer) {
    for (std::int32_t part = 0; part < 4; ++part) {
      const View q = tile_rows(0, buffer, axis, {.peer = peer, .part = part, .parts = 4});
      EXPECT_EQ(flops(attention_of(q, tokens, Mask::causal)), 48 * (tokens + 1));
    }
  }
}

TEST(Zigzag, IsAPermutationOfPositions) {
  for (const std::int32_t tokens : {2, 6, 24}) {
    std::vector<int> seen(static_cast<std::size_t>(tokens), 0);
    for (std::int32_t row = 0; row < tokens; ++row) {
      ++seen.at(static_cast<std::size_t>(zigzag_position(row, tokens)));
      if (row % 2 == 0) {
        EXPECT_EQ(zigzag_position(row, tokens) + zigzag_position(row + 1, tokens), tokens - 1);
      }
    }
    for (const int count : seen) EXPECT_EQ(count, 1);
  }
}

TEST(Flops, GemmCountsTwoPerMultiplyAdd) {
  Gemm gemm{.d = {.tensor = 0, .rows = 2, .cols = 5, .strips = 3, .row_step = 4},
            .a = {.tensor = 1, .rows = 2, .cols = 7, .strips = 3, .row_step = 4},
            .b = {.tensor = 2, .rows = 5, .cols = 7},
            .c = {}};
  EXPECT_EQ(flops(gemm), 2 * 6 * 5 * 7);
  gemm = {.d = {.rows = 6, .cols = 5},
          .a = {.rows = 7, .cols = 6},
          .b = {.rows = 5, .cols = 7},
          .c = {},
          .transpose_a = true};
  EXPECT_EQ(flops(gemm), 2 * 6 * 5 * 7);
  gemm.a = {.rows = 7, .cols = 2, .strips = 3, .col_step = 4};
  EXPECT_EQ(flops(gemm), 2 * 6 * 5 * 7);
  gemm = {.d = {.rows = 6, .cols = 5, .strips = 2, .col_step = 8},
          .a = {.rows = 6, .cols = 7},
          .b = {.rows = 5, .cols = 7, .strips = 2, .row_step = 8},
          .c = {}};
  EXPECT_EQ(flops(gemm), 2 * 6 * 10 * 7);
}

TEST(Flops, DoNotOverflowAtRealSizes) {
  const Gemm gemm{.d = {.rows = 1 << 20, .cols = 53248},
                  .a = {.rows = 1 << 20, .cols = 16384},
                  .b = {.rows = 53248, .cols = 16384},
                  .c = {}};
  EXPECT_EQ(flops(gemm), (std::int64_t{2} << 20) * 53248 * 16384);
  Attention op = attention_of({.rows = 1 << 20, .cols = 12}, 1 << 20, Mask::causal);
  EXPECT_EQ(flops(op), std::int64_t{48} * (1 << 19) * ((1 << 20) + 1));
}

/// Two rows of four columns; gamma and its gradient are one row.
ActivationGradient swiglu_gradient() {
  return {.dx = {.rows = 2, .cols = 4},
          .dy = {.tensor = 1, .rows = 2, .cols = 2},
          .x = {.tensor = 2, .rows = 2, .cols = 4},
          .kind = Activation::swiglu};
}
Norm small_norm() {
  return {.y = {.rows = 2, .cols = 4},
          .x = {.tensor = 1, .rows = 1, .cols = 4, .strips = 2, .row_step = 3},
          .gamma = {.tensor = 2, .rows = 1, .cols = 4}};
}
NormGradient small_norm_gradient() {
  return {.dx = {.rows = 2, .cols = 4},
          .dy = {.tensor = 1, .rows = 2, .cols = 4},
          .x = {.tensor = 2, .rows = 2, .cols = 4},
          .gamma = {.tensor = 3, .rows = 1, .cols = 4}};
}
GammaGradient small_gamma_gradient() {
  return {.d = {.rows = 1, .cols = 4},
          .dy = {.tensor = 1, .rows = 2, .cols = 4},
          .x = {.tensor = 2, .rows = 2, .cols = 4},
          .adds = true};
}

Residual small_residual() {
  return {.y = {.rows = 4, .cols = 3},
          .x = {.tensor = 1, .rows = 4, .cols = 3},
          .r = {.tensor = 2, .rows = 2, .cols = 3, .strips = 2, .row_step = 3}};
}

/// W', M', V', W, M, V and G in tensors 0 to 6 and a copy in 7.
Adam small_adam() {
  const auto view = [](TensorId id) { return View{.tensor = id, .rows = 4, .cols = 3}; };
  return {view(0), view(1), view(2), view(3), view(4), view(5), view(6), view(7)};
}

TEST(Flops, ScheduleAndElementwiseOpsHaveNone) {
  for (const Compute& op :
       std::initializer_list<Compute>{swiglu_gradient(), small_norm(), small_norm_gradient(),
                                      small_gamma_gradient(), small_residual(), small_adam()}) {
    EXPECT_EQ(flops(op), 0);
  }
  EXPECT_EQ(flops(Elementwise{{.rows = 2, .cols = 2}, {.rows = 2, .cols = 4}, Activation::swiglu}),
            0);
  EXPECT_EQ(
      flops(Accumulate{{.rows = 2, .cols = 2}, {.rows = 2, .cols = 2}, {.rows = 2, .cols = 2}}), 0);
  EXPECT_EQ(flops(Copy{{.rows = 2, .cols = 2}, {.rows = 2, .cols = 2}}), 0);
}

TEST(Bytes, CountWhatIsReadAndWritten) {
  const auto all = [](DType dtype) {
    Tensor tensor;
    tensor.dtype = dtype;
    return std::vector<Tensor>(8, tensor);
  };
  const std::vector<Tensor> wide = all(DType::f32);
  const std::vector<Tensor> narrow = all(DType::bf16);
  Gemm gemm{.d = {.tensor = 0, .rows = 6, .cols = 5},
            .a = {.tensor = 1, .rows = 6, .cols = 7},
            .b = {.tensor = 2, .rows = 5, .cols = 7},
            .c = {}};
  EXPECT_EQ(bytes(gemm, narrow), 2 * (30 + 42 + 35));
  gemm.c = gemm.d;
  EXPECT_EQ(bytes(gemm, narrow), 2 * (30 + 42 + 35 + 30));
  const Accumulate sum{.d = {.rows = 4, .cols = 3},
                       .a = {.rows = 4, .cols = 3},
                       .terms = {.tensor = 1, .rows = 4, .cols = 3, .strips = 2, .row_step = 4}};
  EXPECT_EQ(bytes(sum, wide), 4 * (12 + 12 + 24));
  EXPECT_EQ(bytes(small_residual(), narrow), 2 * (12 + 12 + 12));
  EXPECT_EQ(bytes(swiglu_gradient(), wide), 4 * (8 + 4 + 8));
  EXPECT_EQ(bytes(small_norm(), narrow), 2 * (8 + 8 + 4));
  EXPECT_EQ(bytes(small_norm_gradient(), narrow), 2 * (8 + 8 + 8 + 4));
  GammaGradient gradient = small_gamma_gradient();
  EXPECT_EQ(bytes(gradient, narrow), 2 * (4 + 8 + 8 + 4));
  gradient.adds = false;
  EXPECT_EQ(bytes(gradient, narrow), 2 * (4 + 8 + 8));
  AttentionGradient attention = gradient_of({.rows = 3, .cols = 12}, 8, Mask::full);
  EXPECT_EQ(bytes(attention, narrow), 2 * (3 * 36 + 4 * 48));
  attention.adds = true;
  EXPECT_EQ(bytes(attention, narrow), 2 * (3 * 36 + 6 * 48));
  std::vector<Tensor> mixed = narrow;
  mixed[gemm.d.tensor].dtype = DType::f32;
  EXPECT_EQ(bytes(gemm, mixed), 2 * (42 + 35) + 4 * (30 + 30));
}

TEST(Misfit, IsEmptyForOpsThatFit) {
  const View strips{.rows = 2, .cols = 7, .strips = 3, .row_step = 4};
  EXPECT_EQ(misfit(Gemm{{.rows = 6, .cols = 5}, strips, {.rows = 5, .cols = 7}, {}}), "");
  EXPECT_EQ(misfit(Gemm{.d = {.rows = 6, .cols = 5},
                        .a = {.rows = 7, .cols = 6},
                        .b = {.rows = 7, .cols = 5},
                        .c = View{.rows = 3, .cols = 5, .strips = 2, .row_step = 3},
                        .transpose_a = true,
                        .transpose_b = false}),
            "");
  EXPECT_EQ(misfit(Gemm{.d = {.rows = 6, .cols = 5},
                        .a = {.rows = 7, .cols = 2, .strips = 3, .col_step = 4},
                        .b = {.rows = 7, .cols = 5},
                        .c = {},
                        .transpose_a = true,
                        .transpose_b = false}),
            "");
  EXPECT_EQ(misfit(of_three_strips()), "");
  EXPECT_EQ(misfit(attention_of({.rows = 3, .cols = 12}, 8, Mask::full)), "");
  EXPECT_EQ(misfit(gradient_of({.rows = 3, .cols = 12}, 8, Mask::full)), "");
  EXPECT_EQ(misfit(Elementwise{{.rows = 2, .cols = 2}, {.rows = 2, .cols = 4}, Activation::swiglu}),
            "");
  EXPECT_EQ(misfit(Accumulate{{.rows = 2, .cols = 7}, {.rows = 2, .cols = 7}, strips}), "");
  EXPECT_EQ(misfit(Copy{{.rows = 6, .cols = 7}, strips}), "");
  EXPECT_EQ(misfit(swiglu_gradient()), "");
  EXPECT_EQ(misfit(small_norm()), "");
  EXPECT_EQ(misfit(small_norm_gradient()), "");
  EXPECT_EQ(misfit(small_gamma_gradient()), "");
  EXPECT_EQ(misfit(small_residual()), "");
  EXPECT_EQ(misfit(small_adam()), "");
}

TEST(Misfit, OfGemms) {
  const Gemm gemm{{.rows = 6, .cols = 5}, {.rows = 6, .cols = 7}, {.rows = 5, .cols = 7}, {}};
  const auto damaged = [&](auto damage) {
    Gemm op = gemm;
    damage(op);
    return misfit(op);
  };
  EXPECT_EQ(damaged([](Gemm&) {}), "");
  EXPECT_EQ(damaged([](Gemm& op) { op.a.rows = 5; }), "op(A) is 5 x 7, not 6 x 7");
  EXPECT_EQ(damaged([](Gemm& op) { op.b.cols = 8; }), "op(B) is 8 x 5, not 7 x 5");
  EXPECT_EQ(damaged([](Gemm& op) { op.d.cols = 4; }), "op(B) is 7 x 5, not 7 x 4");
  EXPECT_EQ(damaged([](Gemm& op) { op.c = View{.rows = 6, .cols = 4}; }), "C is 6 x 4, not 6 x 5");
  EXPECT_EQ(damaged([](Gemm& op) {
              op.transpose_a = true;
              op.a = {.rows = 7, .cols = 2, .strips = 2, .col_step = 4};
            }),
            "op(A) is 4 x 7, not 6 x 7");
}

TEST(Misfit, OfGemmsWithStripsOfB) {
  const auto damaged = [](auto damage) {
    Gemm op = of_three_strips();
    damage(op);
    return misfit(op);
  };
  EXPECT_EQ(damaged([](Gemm& op) { op.d.strips = 2; }), "3 strips of B do not give 2 of D or C");
  EXPECT_EQ(damaged([](Gemm& op) { op.c->strips = 1; }), "3 strips of B do not give 1 of D or C");
  EXPECT_EQ(damaged([](Gemm& op) { op.a.strips = 3; }), "A and B have 3 and 3 strips");
  EXPECT_EQ(damaged([](Gemm& op) { op.b.rows = 4; }), "op(B) is 7 x 4, not 7 x 5");
  EXPECT_EQ(damaged([](Gemm& op) { op.c->cols = 4; }), "C is 6 x 4, not 6 x 5");
}

TEST(StripOf, IsOneProductOfTheBatch) {
  const Gemm second = strip_of(of_three_strips(), 2);
  EXPECT_EQ(second.d, (View{.rows = 6, .col = 16, .cols = 5}));
  EXPECT_EQ(second.b, (View{.row = 16, .rows = 5, .cols = 7}));
  EXPECT_EQ(second.c, (View{.tensor = 1, .row = 12, .rows = 6, .cols = 5}));
  EXPECT_EQ(second.a, of_three_strips().a);
}

TEST(Misfit, OfAttention) {
  const auto damaged = [](auto damage) {
    Attention op = attention_of({.rows = 3, .cols = 12}, 8, Mask::full);
    damage(op);
    return misfit(op);
  };
  EXPECT_EQ(damaged([](Attention& op) { op.q.cols = 11; }), "Q is 3 x 11, not 3 x 12");
  EXPECT_EQ(damaged([](Attention& op) { op.o.rows = 4; }), "O is 4 x 12, not 3 x 12");
  EXPECT_EQ(damaged([](Attention& op) { op.k.cols = 12; }), "K is 8 x 12, not 8 x 6");
  EXPECT_EQ(damaged([](Attention& op) { op.v.rows = 7; }), "V is 7 x 6, not 8 x 6");
  EXPECT_EQ(damaged([](Attention& op) { op.kv_heads = 3; }),
            "4 heads do not share 3 kv heads evenly");
  EXPECT_EQ(damaged([](Attention& op) { op.kv_heads = 0; }),
            "4 heads do not share 0 kv heads evenly");
}

TEST(Misfit, OfWhatGoesElementByElement) {
  const View two{.rows = 2, .cols = 4};
  const View three{.rows = 3, .cols = 4};
  EXPECT_EQ(misfit(Elementwise{two, two, Activation::swiglu}), "X is 2 x 4, not 2 x 8");
  EXPECT_EQ(misfit(Elementwise{two, three, Activation::relu}), "X is 3 x 4, not 2 x 4");
  EXPECT_EQ(misfit(Residual{two, three, two}), "X is 3 x 4, not 2 x 4");
  EXPECT_EQ(misfit(Residual{two, two, three}), "R is 3 x 4, not 2 x 4");
  EXPECT_EQ(misfit(Accumulate{two, three, two}), "A is 3 x 4, not 2 x 4");
  EXPECT_EQ(misfit(Accumulate{two, two, three}), "a term is 3 x 4, not 2 x 4");
  EXPECT_EQ(misfit(Copy{two, three}), "S is 3 x 4, not 2 x 4");
}

/// Why the op does not fit once it is damaged.
template <class Op, class Damage>
std::string damaged(Op op, Damage damage) {
  damage(op);
  return misfit(op);
}

TEST(Misfit, OfActivationGradients) {
  EXPECT_EQ(damaged(swiglu_gradient(), [](auto& op) { op.dx.cols = 3; }), "dX is 2 x 3, not 2 x 4");
  EXPECT_EQ(damaged(swiglu_gradient(), [](auto& op) { op.x.rows = 3; }), "X is 3 x 4, not 2 x 4");
  EXPECT_EQ(damaged(swiglu_gradient(), [](auto& op) { op.kind = Activation::gelu; }),
            "dX is 2 x 4, not 2 x 2");
}

TEST(Misfit, OfGradientsOfAttention) {
  const AttentionGradient good = gradient_of({.rows = 3, .cols = 12}, 8, Mask::full);
  EXPECT_EQ(damaged(good, [](auto& op) { op.q.cols = 11; }), "Q is 3 x 11, not 3 x 12");
  EXPECT_EQ(damaged(good, [](auto& op) { op.dq.rows = 4; }), "dQ is 4 x 12, not 3 x 12");
  EXPECT_EQ(damaged(good, [](auto& op) { op.d_o.strips = 2; }), "dO is 6 x 12, not 3 x 12");
  EXPECT_EQ(damaged(good, [](auto& op) { op.k.cols = 12; }), "K is 8 x 12, not 8 x 6");
  EXPECT_EQ(damaged(good, [](auto& op) { op.v.rows = 7; }), "V is 7 x 6, not 8 x 6");
  EXPECT_EQ(damaged(good, [](auto& op) { op.dk.rows = 7; }), "dK is 7 x 6, not 8 x 6");
  EXPECT_EQ(damaged(good, [](auto& op) { op.dv.cols = 5; }), "dV is 8 x 5, not 8 x 6");
  EXPECT_EQ(damaged(good, [](auto& op) { op.kv_heads = 3; }),
            "4 heads do not share 3 kv heads evenly");
}

TEST(Misfit, OfNorms) {
  EXPECT_EQ(damaged(small_norm(), [](auto& op) { op.y.rows = 3; }), "Y is 3 x 4, not 2 x 4");
  EXPECT_EQ(damaged(small_norm(), [](auto& op) { op.gamma.rows = 2; }),
            "gamma is 2 x 4, not 1 x 4");
  EXPECT_EQ(damaged(small_norm(), [](auto& op) { op.gamma.cols = 2; }),
            "gamma is 1 x 2, not 1 x 4");
  EXPECT_EQ(damaged(small_norm_gradient(), [](auto& op) { op.dx.rows = 1; }),
            "dX is 1 x 4, not 2 x 4");
  EXPECT_EQ(damaged(small_norm_gradient(), [](auto& op) { op.dy.cols = 5; }),
            "dY is 2 x 5, not 2 x 4");
  EXPECT_EQ(damaged(small_norm_gradient(), [](auto& op) { op.gamma.strips = 2; }),
            "gamma is 2 x 4, not 1 x 4");
  EXPECT_EQ(damaged(small_gamma_gradient(), [](auto& op) { op.d.rows = 2; }),
            "D is 2 x 4, not 1 x 4");
  EXPECT_EQ(damaged(small_gamma_gradient(), [](auto& op) { op.dy.rows = 3; }),
            "dY is 3 x 4, not 2 x 4");
}

TEST(Misfit, OfAdam) {
  const auto short_of_a_row = [](auto pick) {
    return damaged(small_adam(), [&](Adam& op) { pick(op).rows = 3; });
  };
  EXPECT_EQ(short_of_a_row([](Adam& op) -> View& { return op.new_m; }), "M' is 3 x 3, not 4 x 3");
  EXPECT_EQ(short_of_a_row([](Adam& op) -> View& { return op.new_v; }), "V' is 3 x 3, not 4 x 3");
  EXPECT_EQ(short_of_a_row([](Adam& op) -> View& { return op.w; }), "W is 3 x 3, not 4 x 3");
  EXPECT_EQ(short_of_a_row([](Adam& op) -> View& { return op.m; }), "M is 3 x 3, not 4 x 3");
  EXPECT_EQ(short_of_a_row([](Adam& op) -> View& { return op.v; }), "V is 3 x 3, not 4 x 3");
  EXPECT_EQ(short_of_a_row([](Adam& op) -> View& { return op.g; }), "G is 3 x 3, not 4 x 3");
  EXPECT_EQ(short_of_a_row([](Adam& op) -> View& { return *op.copy; }),
            "the copy is 3 x 3, not 4 x 3");
}

TEST(Accesses, OfAdamAreThreeOrFourThatAreWritten) {
  Adam op = small_adam();
  using Views = std::vector<View>;
  EXPECT_EQ(reads(op), (Views{op.w, op.m, op.v, op.g}));
  EXPECT_EQ(writes(op), (Views{op.new_w, op.new_m, op.new_v, *op.copy}));
  op.copy.reset();
  EXPECT_EQ(writes(op), (Views{op.new_w, op.new_m, op.new_v}));
}

TEST(Bytes, OfAdamFollowTheDtypesOfItsTensors) {
  std::vector<Tensor> tensors(8);
  for (Tensor& tensor : tensors) tensor.dtype = DType::f32;
  Adam op = small_adam();
  tensors[op.g.tensor].dtype = tensors[op.copy->tensor].dtype = DType::bf16;
  EXPECT_EQ(bytes(op, tensors), 12 * (24 + 2 + 2));
  op.copy.reset();
  EXPECT_EQ(bytes(op, tensors), 12 * (24 + 2));
}

TEST(Accesses, NameTheViewsOfEveryOp) {
  const View a{.tensor = 1, .rows = 1, .cols = 1};
  const View b{.tensor = 2, .rows = 1, .cols = 1};
  const View c{.tensor = 3, .rows = 1, .cols = 1};
  const View d{.tensor = 4, .rows = 1, .cols = 1};
  using Views = std::vector<View>;
  EXPECT_EQ(reads(Gemm{d, a, b, {}}), (Views{a, b}));
  EXPECT_EQ(reads(Gemm{d, a, b, c}), (Views{a, b, c}));
  EXPECT_EQ(reads(Attention{d, a, b, c}), (Views{a, b, c}));
  EXPECT_EQ(reads(Elementwise{d, a}), (Views{a}));
  EXPECT_EQ(reads(ActivationGradient{d, a, b}), (Views{a, b}));
  EXPECT_EQ(reads(Norm{d, a, b}), (Views{a, b}));
  EXPECT_EQ(reads(NormGradient{d, a, b, c}), (Views{a, b, c}));
  EXPECT_EQ(reads(GammaGradient{d, a, b, false}), (Views{a, b}));
  EXPECT_EQ(reads(GammaGradient{d, a, b, true}), (Views{a, b, d}));
  EXPECT_EQ(reads(Residual{d, a, b}), (Views{a, b}));
  EXPECT_EQ(reads(Accumulate{d, a, b}), (Views{a, b}));
  EXPECT_EQ(reads(Copy{d, a}), (Views{a}));
  const View e{.tensor = 5, .rows = 1, .cols = 1};
  const View f{.tensor = 6, .rows = 1, .cols = 1};
  const View g{.tensor = 7, .rows = 1, .cols = 1};
  AttentionGradient gradient{d, e, f, a, b, c, g};
  EXPECT_EQ(writes(gradient), (Views{d, e, f}));
  EXPECT_EQ(reads(gradient), (Views{a, b, c, g}));
  gradient.adds = true;
  EXPECT_EQ(reads(gradient), (Views{a, b, c, g, e, f}));
  for (const Compute& op : std::initializer_list<Compute>{
           Gemm{d, a, b, {}}, Attention{d, a, b, c}, Elementwise{d, a}, ActivationGradient{d, a, b},
           Norm{d, a, b}, NormGradient{d, a, b, c}, GammaGradient{d, a, b}, Residual{d, a, b},
           Accumulate{d, a, b}, Copy{d, a}}) {
    EXPECT_EQ(writes(op), Views{d});
  }
}

}  // namespace
}  // namespace commfuse
