// SPDX-License-Identifier: Apache-2.0
#include "impls/plan.h"

#include <algorithm>
#include <type_traits>

namespace commfuse {

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::gather:
      return "gather";
    case Lane::scatter:
      return "scatter";
  }
  return "unknown";
}

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::all_reduce:
      return "all_reduce";
  }
  return "unknown";
}

std::string_view name_of(CollectiveVia via) {
  switch (via) {
    case CollectiveVia::standard:
      return "default";
    case CollectiveVia::registered:
      return "registered";
    case CollectiveVia::symmetric:
      return "symmetric";
    case CollectiveVia::copy_engine:
      return "copy_engine";
  }
  return "unknown";
}

std::int64_t least_bytes_sent(const Collective& collective, std::int32_t ranks,
                              std::span<const Tensor> tensors) {
  const auto bytes = [&](const View& view) {
    return view.elements() * bytes_of(tensors[view.tensor].dtype);
  };
  const std::int64_t others = ranks - 1;
  switch (collective.kind) {
    case CollectiveKind::all_gather:
      return others * bytes(collective.send);
    case CollectiveKind::reduce_scatter:
      return others * bytes(collective.receive);
    case CollectiveKind::all_to_all:
      return others * (bytes(collective.send) / ranks);
    case CollectiveKind::all_reduce:
      return (2 * others * bytes(collective.send) + ranks - 1) / ranks;
  }
  return 0;
}

std::span<const Dependency> Plan::dependencies_of(const Op& op) const {
  return std::span{dependencies}.subspan(op.first_dependency, op.dependencies);
}

std::span<const Dependency> Plan::dependencies_of(const Message& message) const {
  return std::span{dependencies}.subspan(message.first_dependency, message.dependencies);
}

std::span<const Message> Plan::messages_of(const Exchange& exchange) const {
  return std::span{messages}.subspan(exchange.first, exchange.count);
}

std::int64_t Plan::scratch_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = workload_tensors; i < tensors.size(); ++i) bytes += tensors[i].bytes();
  return bytes;
}

std::optional<Compute> compute_of(const Op& op) {
  return std::visit(
      [](const auto& work) -> std::optional<Compute> {
        if constexpr (std::is_constructible_v<Compute, decltype(work)>) {
          return Compute{work};
        } else {
          return std::nullopt;
        }
      },
      op.work);
}

std::vector<Access> accesses(const Plan& plan, const Op& op) {
  std::vector<Access> found;
  if (const auto* exchange = std::get_if<Exchange>(&op.work)) {
    for (MessageId id = exchange->first; id < exchange->first + exchange->count; ++id) {
      found.push_back({plan.messages[id].view, !plan.messages[id].send, id});
    }
  } else if (const auto* collective = std::get_if<Collective>(&op.work)) {
    found.push_back({collective->send, false, kWholeOp});
    found.push_back({collective->receive, true, kWholeOp});
  } else {
    const Compute compute = *compute_of(op);
    for (const View& view : reads(compute)) found.push_back({view, false, kWholeOp});
    for (const View& view : writes(compute)) found.push_back({view, true, kWholeOp});
  }
  return found;
}

bool inside(const View& view, std::span<const Tensor> tensors) {
  if (view.tensor >= tensors.size() || view.rows <= 0 || view.cols <= 0 || view.strips <= 0) {
    return false;
  }
  const auto fits = [&view](std::int64_t first, std::int64_t size, std::int64_t step,
                            std::int64_t limit) {
    const std::int64_t last = first + step * (view.strips - 1);
    return std::min(first, last) >= 0 && std::max(first, last) + size <= limit;
  };
  const Tensor& tensor = tensors[view.tensor];
  return fits(view.row, view.rows, view.row_step, tensor.rows) &&
         fits(view.col, view.cols, view.col_step, tensor.cols);
}

}  // namespace commfuse
