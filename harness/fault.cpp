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
#include "suite/shape.h"

namespace commfuse {
namespace {

FaultKind kind_of(std::string_view name) {
  for (const auto& [known, kind] :
       {std::pair{"kill", FaultKind::kill}, std::pair{"fail", FaultKind::fail},
        std::pair{"hang", FaultKind::hang}, std::pair{"reverse", FaultKind::reverse},
        std::pair{"lose", FaultKind::lose}, std::pair{"corrupt", FaultKind::corrupt}}) {
    if (name == known) return kind;
  }
  throw UsageError(fmt::format(
      "--fault '{}' is unknown; valid: kill, fail, hang, reverse, lose, corrupt", name));
}

/// Exchanges keep their messages and what those wait for, and change places.
void reverse_exchanges(Plan& plan) {
  for (const Lane lane : {Lane::gather, Lane::scatter}) {
    std::vector<OpId> exchanges;
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      if (plan.ops[id].lane == lane && std::holds_alternative<Exchange>(plan.ops[id].work)) {
        exchanges.push_back(id);
      }
    }
    for (std::size_t i = 0; i < exchanges.size() / 2; ++i) {
      std::swap(plan.ops[exchanges[i]], plan.ops[exchanges[exchanges.size() - 1 - i]]);
    }
    for (Dependency& dependency : plan.dependencies) {
      const auto at = std::ranges::find(exchanges, dependency.op);
      if (at != exchanges.end())
        dependency.op = exchanges[exchanges.size() - 1 - (at - exchanges.begin())];
    }
  }
}

void lose_first_send(Plan& plan) {
  for (Op& op : plan.ops) {
    auto* exchange = std::get_if<Exchange>(&op.work);
    if (exchange == nullptr || !plan.messages[exchange->first].send) continue;
    ++exchange->first;
    --exchange->count;
    return;
  }
}

void halve_last_gemm(Plan& plan) {
  for (std::size_t i = plan.ops.size(); i-- > 0;) {
    if (auto* gemm = std::get_if<Gemm>(&plan.ops[i].work)) {
      (gemm->transpose_a ? gemm->a.rows : gemm->a.cols) /= 2;
      (gemm->transpose_b ? gemm->b.cols : gemm->b.rows) /= 2;
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
    // Counts start at 1, ranks and groups at 0.
    const std::int32_t number = parts[1] == "0" ? 0 : parse_count(parts[1], "--fault");
    (rank ? fault.rank : fault.group) = number;
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
  if (fault.kind == FaultKind::reverse) reverse_exchanges(plan);
  if (fault.kind == FaultKind::lose) lose_first_send(plan);
  if (fault.kind == FaultKind::corrupt) halve_last_gemm(plan);
}

}  // namespace commfuse
