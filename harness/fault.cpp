// SPDX-License-Identifier: Apache-2.0
#include "harness/fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/option_values.h"
#include "suite/error.h"

namespace commfuse {
namespace {

FaultKind kind_of(std::string_view name) {
  for (const auto& [known, kind] :
       {std::pair{"kill", FaultKind::kill}, std::pair{"fail", FaultKind::fail},
        std::pair{"hang", FaultKind::hang}, std::pair{"reverse", FaultKind::reverse},
        std::pair{"corrupt", FaultKind::corrupt}}) {
    if (name == known) return kind;
  }
  throw UsageError(
      fmt::format("--fault '{}' is unknown; valid: kill, fail, hang, reverse, corrupt", name));
}

void reverse_messages(Plan& plan) {
  for (const Lane lane : {Lane::gather, Lane::scatter}) {
    std::vector<MessageId> messages;
    for (const Op& op : plan.ops) {
      const auto* exchange = std::get_if<Exchange>(&op.work);
      if (exchange == nullptr || op.lane != lane) continue;
      for (MessageId id = exchange->first; id < exchange->first + exchange->count; ++id)
        messages.push_back(id);
    }
    for (std::size_t i = 0; i < messages.size() / 2; ++i) {
      Message& a = plan.messages[messages[i]];
      Message& b = plan.messages[messages[messages.size() - 1 - i]];
      std::swap(a.send, b.send);
      std::swap(a.peer, b.peer);
      std::swap(a.view, b.view);
    }
  }
}

void halve_last_gemm(Plan& plan) {
  for (std::size_t i = plan.ops.size(); i-- > 0;) {
    if (auto* gemm = std::get_if<Gemm>(&plan.ops[i].work)) {
      gemm->a.cols /= 2;
      gemm->b.cols /= 2;
      return;
    }
  }
}

bool hits(const Fault& fault, std::int32_t rank, std::int32_t group) {
  return fault.kind != FaultKind::none && fault.rank == rank && fault.group == group;
}

}  // namespace

Fault parse_fault(std::string_view text) {
  Fault fault;
  if (text.empty()) return fault;
  const auto items = split(text, ':');
  fault.kind = kind_of(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    const auto parts = split(items[i], '=');
    const bool rank = parts[0] == "rank";
    if (parts.size() != 2 || (!rank && parts[0] != "group")) {
      throw UsageError(fmt::format("--fault takes KIND:rank=R:group=G, got '{}'", text));
    }
    (rank ? fault.rank : fault.group) = std::stoi(parts[1]);
  }
  return fault;
}

void strike(const Fault& fault, std::int32_t rank, std::int32_t group) {
  if (!hits(fault, rank, group)) return;
  if (fault.kind == FaultKind::kill) kill(getpid(), SIGKILL);
  if (fault.kind == FaultKind::fail) throw std::runtime_error("failing on purpose (--fault)");
  while (fault.kind == FaultKind::hang) pause();
}

void damage(const Fault& fault, std::int32_t rank, std::int32_t group, Plan& plan) {
  if (!hits(fault, rank, group)) return;
  if (fault.kind == FaultKind::reverse) reverse_messages(plan);
  if (fault.kind == FaultKind::corrupt) halve_last_gemm(plan);
}

}  // namespace commfuse
