// SPDX-License-Identifier: Apache-2.0
#include "impls/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace commfuse {
namespace {

/// Writes what an op does; views by the names of the plan's tensors.
class Describer {
 public:
  explicit Describer(const Plan& plan) : plan_(plan) {}

  std::string operator()(const Gemm& op) const {
    std::string text =
        fmt::format("gemm {} = {}{} * {}{}", name(op.d), name(op.a), op.transpose_a ? "^T" : "",
                    name(op.b), op.transpose_b ? "^T" : "");
    if (op.c) text += fmt::format(" + {}", name(*op.c));
    return text;
  }
  std::string operator()(const Attention& op) const {
    return fmt::format("attention {} = softmax({} * {}^T) * {}, heads {}/{}{}", name(op.o),
                       name(op.q), name(op.k), name(op.v), op.heads, op.kv_heads,
                       op.mask == Mask::causal ? ", causal" : "");
  }
  std::string operator()(const AttentionGradient& op) const {
    std::string text =
        fmt::format("attention gradient {}, {}, {} = softmax'({} * {}^T) * {} * {}, heads {}/{}{}",
                    name(op.dq), name(op.dk), name(op.dv), name(op.q), name(op.k), name(op.v),
                    name(op.d_o), op.heads, op.kv_heads, op.mask == Mask::causal ? ", causal" : "");
    if (op.adds) text += fmt::format(" + {}, {}", name(op.dk), name(op.dv));
    return text;
  }
  std::string operator()(const Elementwise& op) const {
    return fmt::format("{} {} = f({})", name_of(op.kind), name(op.y), name(op.x));
  }
  std::string operator()(const ActivationGradient& op) const {
    return fmt::format("{} gradient {} = f'({}) {}", name_of(op.kind), name(op.dx), name(op.x),
                       name(op.dy));
  }
  std::string operator()(const Norm& op) const {
    return fmt::format("norm {} = norm({}) {}", name(op.y), name(op.x), name(op.gamma));
  }
  std::string operator()(const NormGradient& op) const {
    return fmt::format("norm gradient {} = norm'({}) {} {}", name(op.dx), name(op.x),
                       name(op.gamma), name(op.dy));
  }
  std::string operator()(const GammaGradient& op) const {
    std::string text =
        fmt::format("gamma gradient {} = rows of norm({}) {}", name(op.d), name(op.x), name(op.dy));
    if (op.adds) text += fmt::format(" + {}", name(op.d));
    return text;
  }
  std::string operator()(const Residual& op) const {
    return fmt::format("residual {} = {} + {}", name(op.y), name(op.x), name(op.r));
  }
  std::string operator()(const Adam& op) const {
    std::string text =
        fmt::format("adam {}, {}, {} = step of {}, {}, {} by {}", name(op.new_w), name(op.new_m),
                    name(op.new_v), name(op.w), name(op.m), name(op.v), name(op.g));
    if (op.copy) text += fmt::format(", copied to {}", name(*op.copy));
    return text;
  }
  std::string operator()(const Accumulate& op) const {
    return fmt::format("accumulate {} = {} + {}", name(op.d), name(op.a), name(op.terms));
  }
  std::string operator()(const Copy& op) const {
    return fmt::format("copy {} = {}", name(op.d), name(op.s));
  }
  std::string operator()(const Exchange& op) const {
    std::string text = "exchange";
    const std::size_t end = std::min<std::size_t>(op.first + op.count, plan_.messages.size());
    for (MessageId id = op.first; id < end; ++id) {
      const Message& message = plan_.messages[id];
      fmt::format_to(std::back_inserter(text), "{} #{} {} {} {} {}", id == op.first ? "" : ",", id,
                     message.send ? "send" : "receive", name(message.view),
                     message.send ? "to" : "from", message.peer);
    }
    return text;
  }
  std::string operator()(const Collective& op) const {
    std::string text =
        fmt::format("{} {} <- {}", name_of(op.kind), name(op.receive), name(op.send));
    if (op.via != CollectiveVia::standard) text += fmt::format(", {}", name_of(op.via));
    return text;
  }

 private:
  [[nodiscard]] std::string name(const View& view) const {
    if (view.tensor >= plan_.tensors.size()) return fmt::format("tensor {}", view.tensor);
    return describe(view, plan_.tensors[view.tensor]);
  }

  const Plan& plan_;
};

std::string stage_name(const Workload& workload, std::uint16_t stage) {
  return stage < workload.stages.size() ? workload.stages[stage].name : fmt::format("{}", stage);
}

/// "3" for an op, "#5" for a message.
std::string name_of(const Dependency& on) {
  return on.message == kWholeOp ? fmt::format("{}", on.op) : fmt::format("#{}", on.message);
}

std::string waits(const Plan& plan, const Op& op) {
  std::string text;
  for (const Dependency& on : plan.dependencies_of(op)) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(on));
  }
  return text.empty() ? text : fmt::format("  after {}", text);
}

/// Node names of a plan's drawing.
std::string node(OpId op) { return fmt::format("op{}", op); }

/// An op's description on several lines: a box of a drawing that is one long line makes the drawing
/// unreadable.
std::string lines(std::string text) {
  for (const std::string_view start : {" = ", " + ", " #", " <- "}) {
    for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at)) {
      text.replace(at, 1, "\\n");
    }
  }
  return text;
}

}  // namespace

std::string describe(const Plan& plan, OpId op) {
  return std::visit(Describer(plan), plan.ops.at(op).work);
}

std::string where(const Plan& plan, OpId op) {
  return fmt::format("rank {} op {} ({} lane: {})", plan.rank, op, name_of(plan.ops.at(op).lane),
                     describe(plan, op));
}

std::string explain_text(const Plan& plan, const Workload& workload) {
  std::string text =
      fmt::format("rank {} of {}: {} ops, {} messages, {} bytes of scratch\n", plan.rank,
                  plan.ranks, plan.ops.size(), plan.messages.size(), plan.scratch_bytes());
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    const Op& op = plan.ops[id];
    fmt::format_to(std::back_inserter(text), "{:>6}  {:<8} {}  {}{}\n", id, name_of(op.lane),
                   stage_name(workload, op.stage), describe(plan, id), waits(plan, op));
  }
  return text;
}

std::string explain_dot(const Plan& plan, const Workload& workload,
                        std::string_view implementation) {
  std::string text =
      fmt::format("digraph plan {{\n  label=\"{}, {}, rank {} of {}\";\n  node [shape=box];\n",
                  workload.name, implementation, plan.rank, plan.ranks);
  const auto out = std::back_inserter(text);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const bool used = std::ranges::any_of(
        plan.ops, [&](const Op& op) { return static_cast<std::size_t>(op.lane) == lane; });
    if (!used) continue;
    const std::string_view name = name_of(static_cast<Lane>(lane));
    fmt::format_to(out, "  subgraph cluster_{} {{\n    label=\"{}\";\n", name, name);
    std::string previous;
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      if (static_cast<std::size_t>(plan.ops[id].lane) != lane) continue;
      fmt::format_to(out, "    {} [label=\"{}: {}\"];\n", node(id), id, lines(describe(plan, id)));
      if (!previous.empty()) {
        fmt::format_to(out, "    {} -> {} [style=dotted];\n", previous, node(id));
      }
      previous = node(id);
    }
    text += "  }\n";
  }
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    for (const Dependency& on : plan.dependencies_of(plan.ops[id])) {
      const std::string label =
          on.message == kWholeOp ? "" : fmt::format(" [label=\"#{}\"]", on.message);
      fmt::format_to(out, "  {} -> {}{};\n", node(on.op), node(id), label);
    }
  }
  text += "}\n";
  return text;
}

}  // namespace commfuse
