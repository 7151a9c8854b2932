// SPDX-License-Identifier: Apache-2.0
// Backward of query-split attention and its out-projection. dY arrives token slice by token slice,
// so attention's gradient goes over tiles of queries, as its forward pass does: a tile gives rows
// of dQ and a share of all of dK and dV, which are added up in fp32.
#include "suite/workloads/gradient_phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_answers.h"
#include "suite/workloads/tpsp_attention_gradient.h"
#include "suite/workloads/tpsp_backward_answers.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {
namespace {

/// One-hot attention keeps exact data exact (data.cpp); then nothing reaches queries and keys.
bool stays_exact(const Shape& shape) { return code_columns(shape.tokens) <= shape.head_dim; }

Answers query_answer(TensorId dq, const Shape& shape, std::int32_t ranks,
                     const SavedHeadGradients& heads) {
  return {.tensor = dq,
          .exact = stays_exact(shape),
          .rows = [=](Range asked, std::span<const std::int32_t> rows) {
            return heads.q(share_of(asked, shape.heads, ranks), rows);
          }};
}

Answers kv_answer(TensorId d, const Shape& shape, std::int32_t ranks,
                  const SavedHeadGradients& heads, Rows KeyGradients::*which) {
  return {.tensor = d,
          .exact = stays_exact(shape),
          .rows = [=](Range asked, std::span<const std::int32_t> rows) {
            return heads.kv(which, share_of(asked, shape.kv_heads, ranks), rows, DType::f32);
          }};
}

}  // namespace

std::string tpsp_attention_backward_unsupported(const Shape& shape, std::int32_t ranks) {
  std::string reason = tpsp_attention_unsupported(shape, ranks);
  return reason.empty() ? unless_divisible("kv_heads", shape.kv_heads, ranks) : reason;
}

Workload tpsp_attention_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/attention", shape, ranks);
  const Axis axis = sequence_axis(shape, ranks);
  const Attention own = own_heads(shape, ranks);
  const std::int32_t width = own.heads * shape.head_dim;
  const std::int32_t kv_width = own.kv_heads * shape.head_dim;
  const Operand dy = builder.tensor("dY", shape.tokens, shape.hidden);
  const Operand q = builder.tensor("Q", shape.tokens, width);
  const Operand k = builder.tensor("K", shape.tokens, kv_width);
  const Operand v = builder.tensor("V", shape.tokens, kv_width);
  const Operand o = builder.tensor("O", shape.tokens, width);
  const Operand w = builder.weight("Wo", shape.hidden, width);
  const Operand d_o = builder.tensor("dO", shape.tokens, width);
  const Operand dq = builder.tensor("dQ", shape.tokens, width);
  const Operand dk = builder.gradient("dK", k);
  const Operand dv = builder.gradient("dV", v);
  const Operand dw = builder.gradient("dWo", w);
  builder.inputs([=](std::int32_t rank) {
    return std::vector{own_tokens(tpsp_input(shape, TpspInput::x), dy.id, axis, rank),
                       tpsp_columns(shape, TpspInput::q, q.all(), rank),
                       tpsp_columns(shape, TpspInput::k, k.all(), rank),
                       tpsp_columns(shape, TpspInput::v, v.all(), rank),
                       piece_of(tpsp_transpose(shape, TpspInput::ot), o.all(), 0, rank * width),
                       piece_of(tpsp_transpose(shape, TpspInput::wq), w.all(), 0, rank * width)};
  });
  builder.answers([=](const Source& source, Portion) {
    const SavedHeadGradients heads(shape, attention_inputs(shape, source),
                                   input_tokens(shape, source), source);
    return std::vector{query_answer(dq.id, shape, ranks, heads),
                       kv_answer(dk.id, shape, ranks, heads, &KeyGradients::dk),
                       kv_answer(dv.id, shape, ranks, heads, &KeyGradients::dv),
                       gradient_answer(dw.id, tpsp_transpose(shape, TpspInput::x), 0,
                                       sparse_o(shape, ranks), source)};
  });
  builder.stage({.name = "backward",
                 .axis = axis,
                 .phases = {input_gradient(axis, d_o, dy, w),
                            attention_gradient(axis, own, {dq, dk, dv, d_o, q, k, v}),
                            weight_gradient_over_rows(axis, dw, dy, o)},
                 .gather = Gather{dy.id}});
  for (const Operand& made : {dq, dk, dv, dw}) builder.output(made);
  return builder.take();
}

}  // namespace commfuse
