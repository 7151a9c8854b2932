// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "suite/oracle_attention.h"
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// What one rank attends with: its heads, and its kv heads or the one that it shares with others.
Attention local_heads(const Shape& shape, std::int32_t ranks) {
  Attention local;
  local.heads = shape.heads / ranks;
  local.kv_heads = std::max(shape.kv_heads / ranks, 1);
  local.head_dim = shape.head_dim;
  local.mask = shape.causal ? Mask::causal : Mask::full;
  return local;
}

/// The rank's kv heads: ranks that share a head hold the same columns.
Fill kv_columns(const Shape& shape, TpspInput input, const Operand& tensor, std::int32_t ranks,
                std::int32_t rank) {
  const std::int32_t sharing = std::max(ranks / shape.kv_heads, 1);
  return tpsp_columns(shape, input, tensor.all(), rank / sharing);
}

std::string kv_heads_unsupported(const Shape& shape, std::int32_t ranks) {
  if (shape.kv_heads % ranks == 0 || ranks % shape.kv_heads == 0) return {};
  return fmt::format(
      "needs kv_heads divisible by ranks ({}) or ranks divisible by kv_heads, got {}", ranks,
      shape.kv_heads);
}

/// Q, K, V and O; W; partial and result.
WorkSize attention_size(const Shape& shape) {
  const double tokens = shape.tokens;
  const double hidden = shape.hidden;
  const double width = double{1} * shape.heads * shape.head_dim;
  return {tokens * std::max(tokens, hidden) * width,
          4 * tokens * width + hidden * width + 2 * tokens * hidden};
}

Answers attention_answers(TensorId partial, const Shape& shape, std::int32_t ranks,
                          const Source& source) {
  return {.tensor = partial,
          .exact = code_columns(shape.tokens) <= shape.head_dim,
          .rows =
              [=](Range asked, std::span<const std::int32_t> rows) {
                return linear(attend(shape, attention_inputs(shape, source),
                                     share_of(asked, shape.heads, ranks), rows),
                              row_parallel(shape, TpspInput::out, asked, ranks), source,
                              shape.dtype);
              },
          .product = {}};
}

}  // namespace

std::string tpsp_attention_unsupported(const Shape& shape, std::int32_t ranks) {
  for (const auto& reason : {unless_one_layer(shape), unless_given("tokens", shape.tokens),
                             unless_given("heads", shape.heads)}) {
    if (!reason.empty()) return reason;
  }
  for (const auto& reason : {unless_divisible("tokens", shape.tokens, ranks),
                             unless_divisible("heads", shape.heads, ranks),
                             kv_heads_unsupported(shape, ranks), unless_pairs(shape, ranks),
                             unless_countable("tokens x max(tokens, hidden) x heads x head_dim",
                                              attention_size(shape))}) {
    if (!reason.empty()) return reason;
  }
  return {};
}

Workload tpsp_attention(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/attention", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const Attention local = local_heads(shape, ranks);
  const std::int32_t width = local.heads * shape.head_dim;
  const std::int32_t kv_width = local.kv_heads * shape.head_dim;
  const Operand q = builder.tensor("Q", shape.tokens, width);
  const Operand k = builder.tensor("K", shape.tokens, kv_width);
  const Operand v = builder.tensor("V", shape.tokens, kv_width);
  const Operand o = builder.tensor("O", shape.tokens, width);
  const Operand w = builder.weight("Wo", shape.hidden, width);
  const Operand partial = builder.tensor("partial", shape.tokens, shape.hidden);
  const Operand result = builder.tensor("result", axis.rows, shape.hidden);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{tpsp_columns(shape, TpspInput::q, q.all(), rank),
                       kv_columns(shape, TpspInput::k, k, ranks, rank),
                       kv_columns(shape, TpspInput::v, v, ranks, rank),
                       tpsp_columns(shape, TpspInput::out, w.all(), rank)};
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{attention_answers(partial.id, shape, ranks, source)};
  });
  builder.stage({.name = "attention",
                 .axis = axis,
                 .phases = {attention(axis, local, o, q, k, v), last_linear(axis, partial, o, w)},
                 .gather = {},
                 .reduce_scatter = ReduceScatter{partial.id, result.id}});
  builder.output(result);
  return builder.take();
}

}  // namespace commfuse
