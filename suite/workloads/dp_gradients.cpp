// SPDX-License-Identifier: Apache-2.0
// Inputs of the maps (X) are those that a forward pass saved, and given. The oracle sees a gradient
// as the product of dY^T and a weight [in, tokens of all ranks] whose transpose X is: reduced over
// tokens, a run of them on every rank, like a row-parallel layer over its features. dY of all maps
// but the last it gets from the other side: dY W_n ... W_i for some columns of W_i costs no more
// than products of matrices and those vectors. Both ways keep exact data exact (data.cpp).
#include "suite/workloads/dp_gradients.h"

#include "suite/oracle_chain.h"
#include "suite/workloads/dp_layers.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {
namespace {

/// 16 tokens of all ranks are not 0 in a column of X, and 16 * 16 is what bf16 holds.
constexpr std::int32_t kLargestGradient = 16;

/// The global tensors.
struct Backward {
  std::vector<DpLinear> linears;
  std::int32_t tokens = 0;  // of one rank
  Fill dy;                  // of the last map
  std::vector<Fill> xt;     // of each map
  std::vector<Fill> wt;     // as they are applied: of the last map first, none of the first map

  Backward(const Shape& shape, std::int32_t ranks)
      : linears(dp_linears(shape)),
        tokens(shape.tokens),
        dy(dp_input(DpInput::dy, 0, Content::activation, all_tokens(shape, ranks), shape.hidden)) {
    for (std::size_t i = 0; i < linears.size(); ++i) {
      xt.push_back(
          dp_input(DpInput::xt, i, Content::weight, linears[i].in, all_tokens(shape, ranks)));
    }
    for (std::size_t i = linears.size() - 1; i > 0; --i) {
      wt.push_back(dp_input(DpInput::wt, i, Content::weight, linears[i].in, linears[i].out));
    }
    wt = dp_chained(std::move(wt), kLargestGradient);
  }

  /// Of map i > 0.
  [[nodiscard]] const Fill& weight(std::size_t i) const { return wt[linears.size() - 1 - i]; }
};

Fill transpose_of(Fill global) {
  global.transposed = !global.transposed;
  std::swap(global.view.rows, global.view.cols);
  return global;
}

/// Of map i; `partial` is what a rank has of it.
Answers gradient_answers(TensorId partial, std::size_t i, const Backward& pass, DType dtype,
                         const Source& source) {
  const auto tokens_of = [=](Range ranks) {
    return Range{ranks.first * pass.tokens, ranks.count * pass.tokens};
  };
  const auto part = [=](Range ranks) {
    return WeightPart{.global = pass.xt[i],
                      .rows = {0, pass.linears[i].in},
                      .cols = tokens_of(ranks),
                      .pieces = ranks.count};
  };
  const bool last = i + 1 == pass.linears.size();
  Answers answers{.tensor = partial,
                  .exact = true,
                  .rows =
                      [=](Range ranks, std::span<const std::int32_t> rows) {
                        const auto above = std::span(pass.wt).first(pass.linears.size() - 1 - i);
                        const Rows dy =
                            last ? input_rows(transpose_of(pass.dy), tokens_of(ranks), rows, source)
                                 : chain_columns(pass.dy, tokens_of(ranks), above, rows, source,
                                                 dtype);
                        return linear(dy, part(ranks), source, dtype);
                      },
                  .product = {}};
  if (last) {
    answers.product = [=](Range ranks) { return Product{transpose_of(pass.dy), part(ranks)}; };
  }
  return answers;
}

/// The tensors of map i.
struct Buffers {
  Operand dy, x, partial, result;
  Operand w;  // only of i > 0
};

std::vector<Buffers> add_tensors(WorkloadBuilder& builder, const Backward& pass, std::int32_t ranks,
                                 GradientSum sum) {
  std::vector<Buffers> all;
  for (const DpLinear& map : pass.linears) {
    const bool first = all.empty();
    Buffers buffers;
    buffers.dy = builder.tensor("dY_" + map.name, pass.tokens, map.out);
    buffers.x = builder.tensor("X_" + map.name, pass.tokens, map.in);
    if (!first) buffers.w = builder.weight("W_" + map.name, map.out, map.in);
    buffers.partial = builder.tensor("partial_" + map.name, map.out, map.in);
    const std::int32_t rows = sum == GradientSum::cut ? map.out / ranks : map.out;
    buffers.result = builder.tensor("dW_" + map.name, rows, map.in);
    all.push_back(std::move(buffers));
  }
  return all;
}

void add_stages(WorkloadBuilder& builder, const Backward& pass, const std::vector<Buffers>& all,
                std::int32_t ranks, GradientSum sum) {
  for (std::size_t i = pass.linears.size(); i-- > 0;) {
    const DpLinear& map = pass.linears[i];
    const Buffers& own = all[i];
    if (i > 0) {
      const Axis inputs{.ranks = ranks, .rows = map.in / ranks};
      builder.stage(
          {.name = "dgrad_" + map.name,
           .axis = inputs,
           .phases = {last_input_gradient_by_features(inputs, all[i - 1].dy, own.dy, own.w)}});
    }
    const Axis outputs{.ranks = ranks, .rows = map.out / ranks};
    Stage stage{.name = "wgrad_" + map.name,
                .axis = outputs,
                .phases = {last_weight_gradient(outputs, own.partial, own.dy, own.x)}};
    if (sum == GradientSum::cut) {
      stage.reduce_scatter = ReduceScatter{own.partial.id, own.result.id};
    } else {
      stage.all_reduce = AllReduce{own.partial.id, own.result.id};
    }
    builder.stage(std::move(stage));
    builder.output(own.result);
  }
}

std::vector<Fill> inputs_of(const Backward& pass, const std::vector<Buffers>& all,
                            std::int32_t rank) {
  const std::int32_t first = rank * pass.tokens;
  std::vector<Fill> fills{piece_of(pass.dy, all.back().dy.all(), first, 0)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    fills.push_back(piece_of(transpose_of(pass.xt[i]), all[i].x.all(), first, 0));
    if (i > 0) fills.push_back(piece_of(transpose_of(pass.weight(i)), all[i].w.all(), 0, 0));
  }
  return fills;
}

}  // namespace

Workload gradients(std::string name, const Shape& shape, std::int32_t ranks, GradientSum sum) {
  WorkloadBuilder builder(std::move(name), shape, ranks);
  const Backward pass(shape, ranks);
  const std::vector<Buffers> all = add_tensors(builder, pass, ranks, sum);
  builder.inputs([=](std::int32_t rank) { return inputs_of(pass, all, rank); });
  builder.answers([=](const Source& source, Portion) {
    std::vector<Answers> answers;
    for (std::size_t i = 0; i < all.size(); ++i) {
      answers.push_back(gradient_answers(all[i].partial.id, i, pass, shape.dtype, source));
    }
    return answers;
  });
  add_stages(builder, pass, all, ranks, sum);
  return builder.take();
}

}  // namespace commfuse
