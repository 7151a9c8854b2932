// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "impls/checks.h"
#include "impls/explain.h"
#include "impls/verify.h"

namespace commfuse {
namespace {

/// Whether [first, first + count) lies inside [begin, end).
bool within(std::size_t first, std::size_t count, std::size_t begin, std::size_t end) {
  return begin <= first && first <= end && count <= end - first;
}

std::int64_t bytes_of(const Plan& plan, const View& view) {
  return view.elements() * bytes_of(plan.tensors[view.tensor].dtype);
}

/// Elements before the first one of a view.
std::int64_t offset(const Plan& plan, const View& view) {
  return std::int64_t{view.row} * plan.tensors[view.tensor].cols + view.col;
}

/// One plan, looked through in order.
class Inspection {
 public:
  explicit Inspection(const Plan& plan)
      : plan_(plan), sequences_(static_cast<std::size_t>(plan.ranks) * kLanes * 2) {}

  void run() {
    for (const View& view : plan_.inputs) require_listed(view, "input");
    for (const View& view : plan_.outputs) require_listed(view, "output");
    for (id_ = 0; id_ < plan_.ops.size(); ++id_) inspect(plan_.ops[id_]);
    if (next_message_ != plan_.messages.size()) {
      throw PlanError(fmt::format("rank {}: {} messages, of which exchanges name {}", plan_.rank,
                                  plan_.messages.size(), next_message_));
    }
  }

 private:
  void inspect(const Op& op) {
    require(within(op.first_dependency, op.dependencies, 0, plan_.dependencies.size()),
            "has dependencies outside of the plan's");
    const auto* exchange = std::get_if<Exchange>(&op.work);
    if (exchange != nullptr) {
      require(exchange->first == next_message_ &&
                  within(exchange->first, exchange->count, 0, plan_.messages.size()),
              "does not continue the plan's messages");
      next_message_ += exchange->count;
    }
    for (const Access& access : accesses(plan_, op)) {
      require(inside(access.view, plan_.tensors), "has a view outside of its tensor");
    }
    for (const Dependency& on : plan_.dependencies_of(op)) inspect(on);
    if (exchange != nullptr) inspect(op, *exchange);
    if (const auto* collective = std::get_if<Collective>(&op.work)) inspect(*collective);
    if (const auto compute = compute_of(op)) inspect(*compute);
  }

  void inspect(const Dependency& on) {
    if (on.op >= id_) fail("depends on op {}, which is not an earlier one", on.op);
    if (on.message == kWholeOp) return;
    const auto* exchange = std::get_if<Exchange>(&plan_.ops[on.op].work);
    if (exchange == nullptr ||
        !within(on.message, 1, exchange->first, exchange->first + exchange->count)) {
      fail("depends on message #{}, which op {} does not have", on.message, on.op);
    }
  }

  void inspect(const Compute& compute) {
    if (const std::string reason = misfit(compute); !reason.empty()) {
      fail("does not fit together: {}", reason);
    }
  }

  void inspect(const Op& op, const Exchange& exchange) {
    const std::span<const Message> messages = plan_.messages_of(exchange);
    for (const Message& message : messages) {
      if (message.peer < 0 || message.peer >= plan_.ranks || message.peer == plan_.rank) {
        fail("has no peer {} for {}", message.peer, name(message.view));
      }
      if (message.logical_bytes <= 0 || message.logical_bytes > bytes_of(plan_, message.view)) {
        fail("moves {} bytes, but {} holds {}", message.logical_bytes, name(message.view),
             bytes_of(plan_, message.view));
      }
      if (!within(message.first_dependency, message.dependencies, op.first_dependency,
                  op.first_dependency + op.dependencies)) {
        fail("has dependencies for {} that are not its own", name(message.view));
      }
      const auto peer = static_cast<std::size_t>(message.peer) * kLanes;
      std::uint32_t& sequence =
          sequences_[(peer + static_cast<std::size_t>(op.lane)) * 2 + message.send];
      if (message.sequence != sequence) {
        fail("numbers {} {} where {} is next", name(message.view), message.sequence, sequence);
      }
      ++sequence;
    }
    inspect_siblings(messages);
  }

  void inspect_siblings(std::span<const Message> messages) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const bool both_read = messages[i].send && messages[j].send;
        require(both_read || !overlap(messages[i].view, messages[j].view),
                "receives into what another of its messages uses");
      }
    }
  }

  void inspect(const Collective& collective) {
    const View& send = collective.send;
    const View& receive = collective.receive;
    require(contiguous(send, plan_.tensors[send.tensor]) &&
                contiguous(receive, plan_.tensors[receive.tensor]),
            "has a strided view");
    require(plan_.tensors[send.tensor].dtype == plan_.tensors[receive.tensor].dtype,
            "has views of two types");
    inspect_sizes(collective);
    const std::int64_t in_place = offset(plan_, receive) + plan_.rank * send.elements();
    const bool gathers = collective.kind == CollectiveKind::all_gather;
    require(!overlap(send, receive) || (gathers && offset(plan_, send) == in_place),
            "sends from where it receives, and not from its own place");
  }

  void inspect_sizes(const Collective& collective) {
    const View& send = collective.send;
    const View& receive = collective.receive;
    switch (collective.kind) {
      case CollectiveKind::all_gather:
        return require_blocks(receive, send);
      case CollectiveKind::reduce_scatter:
        return require_blocks(send, receive);
      case CollectiveKind::all_to_all:
        if (send.elements() != receive.elements() || send.elements() % plan_.ranks != 0) {
          fail("has {} and {} elements, not {} equal blocks each", send.elements(),
               receive.elements(), plan_.ranks);
        }
        return;
      case CollectiveKind::all_reduce:
        if (send.total_rows() != receive.total_rows() || send.cols != receive.cols) {
          fail("has {} x {} and {} x {} elements, not the same shape", send.total_rows(), send.cols,
               receive.total_rows(), receive.cols);
        }
        return;
    }
  }

  void require_blocks(const View& whole, const View& part) const {
    if (bytes_of(plan_, whole) == plan_.ranks * bytes_of(plan_, part)) return;
    fail("has {} and {} bytes, not {} times as many", bytes_of(plan_, whole), bytes_of(plan_, part),
         plan_.ranks);
  }

  void require_listed(const View& view, std::string_view what) const {
    if (inside(view, plan_.tensors)) return;
    throw PlanError(
        fmt::format("rank {}: an {} lies outside of tensor {}", plan_.rank, what, view.tensor));
  }
  [[nodiscard]] std::string name(const View& view) const {
    return describe(view, plan_.tensors[view.tensor]);
  }
  void require(bool holds, std::string_view otherwise) const {
    if (!holds) fail("{}", otherwise);
  }
  template <class... Values>
  [[noreturn]] void fail(fmt::format_string<Values...> text, Values&&... values) const {
    throw PlanError(fmt::format("{} {}", where(plan_, id_),
                                fmt::format(text, std::forward<Values>(values)...)));
  }

  const Plan& plan_;
  OpId id_ = 0;
  std::size_t next_message_ = 0;
  std::vector<std::uint32_t> sequences_;  // by peer, lane and direction
};

void check_belongs(const Plan& plan, const Workload& workload) {
  const std::size_t count = workload.tensors.size();
  if (plan.workload_tensors != count || plan.tensors.size() < count ||
      !std::equal(workload.tensors.begin(), workload.tensors.end(), plan.tensors.begin())) {
    throw PlanError(fmt::format("rank {}: its tensors do not begin with those of {}", plan.rank,
                                workload.name));
  }
  if (plan.outputs != required_outputs(workload, plan.portion)) {
    throw PlanError(
        fmt::format("rank {}: its outputs are not those of {}", plan.rank, workload.name));
  }
}

}  // namespace

void check_well_formed(std::span<const Plan> plans, const Workload& workload) {
  if (plans.size() != static_cast<std::size_t>(workload.ranks)) {
    throw PlanError(fmt::format("{} plans for {} ranks", plans.size(), workload.ranks));
  }
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const Plan& plan = plans[rank];
    if (plan.rank != static_cast<std::int32_t>(rank) || plan.ranks != workload.ranks) {
      throw PlanError(fmt::format("plan {} of {} says rank {} of {}", rank, plans.size(), plan.rank,
                                  plan.ranks));
    }
    check_well_formed(plan, workload);
  }
}

void check_well_formed(const Plan& plan, const Workload& workload) {
  check_belongs(plan, workload);
  Inspection(plan).run();
}

}  // namespace commfuse
