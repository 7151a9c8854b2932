// SPDX-License-Identifier: Apache-2.0
#include "harness/plan_spans.h"

#include <optional>

namespace commfuse {
namespace {

/// A copy that rounds is part of what is computed; another one is the schedule's own.
bool rounds(const Compute& op, std::span<const Tensor> tensors) {
  const auto* copy = std::get_if<Copy>(&op);
  return copy != nullptr && tensors[copy->d.tensor].dtype != tensors[copy->s.tensor].dtype;
}

SpanKind kind_of(const Compute& op, std::span<const Tensor> tensors) {
  if (std::holds_alternative<Gemm>(op) || std::holds_alternative<Attention>(op) ||
      std::holds_alternative<AttentionGradient>(op)) {
    return SpanKind::model;
  }
  if (rounds(op, tensors)) return SpanKind::elementwise;
  if (std::holds_alternative<Accumulate>(op) || std::holds_alternative<Copy>(op)) {
    return SpanKind::overhead;
  }
  return SpanKind::elementwise;
}

Span span_of_op(const Plan& plan, OpId id) {
  const Op& op = plan.ops[id];
  Span span;
  span.op = id;
  span.lane = static_cast<std::uint8_t>(op.lane);
  if (const auto* collective = std::get_if<Collective>(&op.work)) {
    span.kind = SpanKind::collective;
    span.bytes = least_bytes_sent(*collective, plan.ranks, plan.tensors);
  } else {
    const Compute compute = *compute_of(op);
    span.kind = kind_of(compute, plan.tensors);
    span.flops = flops(compute);
    span.bytes = bytes(compute, plan.tensors);
  }
  return span;
}

}  // namespace

std::vector<Span> untimed_spans(const Plan& plan) {
  std::vector<Span> spans;
  spans.reserve(plan.ops.size() + plan.messages.size());
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    if (!std::holds_alternative<Exchange>(plan.ops[id].work)) {
      spans.push_back(span_of_op(plan, id));
    }
  }
  const std::size_t ops = spans.size();
  spans.resize(ops + plan.messages.size());
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    const auto* exchange = std::get_if<Exchange>(&plan.ops[id].work);
    if (exchange == nullptr) continue;
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      Span& span = spans[ops + m];
      span.op = id;
      span.lane = static_cast<std::uint8_t>(plan.ops[id].lane);
      span.kind = SpanKind::transfer;
      span.message = static_cast<std::int32_t>(m);
      span.send = plan.messages[m].send;
      span.bytes = plan.messages[m].wire_bytes;
    }
  }
  return spans;
}

}  // namespace commfuse
