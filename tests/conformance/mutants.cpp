// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "impls/explain.h"

namespace commfuse {
namespace {

std::vector<Plan> copy_of(const Original& original) {
  return {original.plans.begin(), original.plans.end()};
}

std::int64_t bytes_in(const Plan& plan, const View& view) {
  return view.elements() * bytes_of(plan.tensors[view.tensor].dtype);
}

void resize(const Plan& plan, Message& message) {
  message.logical_bytes = bytes_in(plan, message.view);
  message.wire_bytes = message.logical_bytes;
}

/// Counts the messages of every peer, lane and direction anew, in the order of the ops.
void renumber(Plan& plan) {
  std::map<std::tuple<std::int32_t, Lane, bool>, std::uint32_t> next;
  for (const Op& op : plan.ops) {
    const auto* exchange = std::get_if<Exchange>(&op.work);
    if (exchange == nullptr) continue;
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      Message& message = plan.messages[m];
      message.sequence = next[{message.peer, op.lane, message.send}]++;
    }
  }
}

/// The same ops with dependencies inferred anew; without the ops in `removed`.
Plan inferred(const Plan& plan, const Workload& workload, std::optional<OpId> removed = {}) {
  PlanBuilder builder(workload, plan.rank);
  for (std::size_t id = plan.workload_tensors; id < plan.tensors.size(); ++id) {
    const Tensor& tensor = plan.tensors[id];
    builder.scratch(tensor.name, tensor.rows, tensor.cols, tensor.dtype);
  }
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    const Op& op = plan.ops[id];
    if (id == removed) continue;
    builder.begin_stage(op.stage);
    if (const auto* exchange = std::get_if<Exchange>(&op.work)) {
      std::vector<PlanBuilder::Transfer> transfers;
      for (const Message& message : plan.messages_of(*exchange)) {
        transfers.push_back({message.send, message.peer, message.view});
      }
      builder.exchange(op.lane, transfers);
    } else if (const auto* collective = std::get_if<Collective>(&op.work)) {
      builder.collective(op.lane, *collective);
    } else {
      builder.compute(*compute_of(op));
    }
  }
  Plan result = builder.take(plan.inputs, plan.outputs);
  result.portion = plan.portion;
  return result;
}

/// Calls `change` with a copy of every rank's plan in turn; what it returns is visited as a mutant
/// in which the other ranks are sound.
template <class Change>  // (Plan& plan, emit) where emit(what, damaged plan)
void each_rank(const Original& original, const Visit& visit, Change change) {
  for (const Plan& plan : original.plans) {
    change(plan, [&](const std::string& what, Plan damaged) {
      Mutant mutant{fmt::format("rank {}: {}", plan.rank, what), copy_of(original)};
      mutant.plans[static_cast<std::size_t>(plan.rank)] = std::move(damaged);
      visit(mutant);
    });
  }
}

// ---- a dependency is dropped --------------------------------------------------------------------

Plan without_dependency(Plan plan, std::uint32_t dropped) {
  plan.dependencies.erase(plan.dependencies.begin() + dropped);
  const auto shrink = [dropped](auto& holder) {
    if (holder.first_dependency > dropped) {
      --holder.first_dependency;
    } else if (dropped < holder.first_dependency + holder.dependencies) {
      --holder.dependencies;
    }
  };
  for (Op& op : plan.ops) shrink(op);
  for (Message& message : plan.messages) shrink(message);
  return plan;
}

void drop_dependency(const Original& original, const Visit& visit) {
  each_rank(original, visit, [](const Plan& plan, const auto& emit) {
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      const Op& op = plan.ops[id];
      for (std::uint32_t d = op.first_dependency; d < op.first_dependency + op.dependencies; ++d) {
        emit(fmt::format("op {} no longer waits for op {}", id, plan.dependencies[d].op),
             without_dependency(plan, d));
      }
    }
  });
}

// ---- peers are swapped --------------------------------------------------------------------------

/// Swaps the first two different peers of exchange `id`; false if there are none.
bool swap_peers(Plan& plan, OpId id) {
  const auto* exchange = std::get_if<Exchange>(&plan.ops[id].work);
  if (exchange == nullptr) return false;
  Message& first = plan.messages[exchange->first];
  for (MessageId m = exchange->first + 1; m < exchange->first + exchange->count; ++m) {
    Message& other = plan.messages[m];
    if (other.peer == first.peer) continue;
    std::swap(first.peer, other.peer);
    renumber(plan);
    return true;
  }
  return false;
}

void swap_peers_of_one_rank(const Original& original, const Visit& visit) {
  each_rank(original, visit, [](const Plan& plan, const auto& emit) {
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      Plan damaged = plan;
      if (swap_peers(damaged, id)) emit(fmt::format("op {}: peers swapped", id), damaged);
    }
  });
}

void swap_peers_of_all_ranks(const Original& original, const Visit& visit) {
  for (OpId id = 0; id < original.plans.front().ops.size(); ++id) {
    Mutant mutant{fmt::format("all ranks, op {}: peers swapped", id), copy_of(original)};
    bool swapped = true;
    for (Plan& plan : mutant.plans) swapped = swap_peers(plan, id) && swapped;
    if (swapped) visit(mutant);
  }
}

// ---- two slices are exchanged -------------------------------------------------------------------

/// The views that communication of one lane and direction reads or writes, in order.
struct Slot {
  OpId op = 0;
  View* view = nullptr;
};
std::vector<Slot> slots(Plan& plan, Lane lane, bool send) {
  std::vector<Slot> found;
  for (OpId id = 0; id < plan.ops.size(); ++id) {
    Op& op = plan.ops[id];
    if (op.lane != lane) continue;
    if (auto* exchange = std::get_if<Exchange>(&op.work)) {
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        if (plan.messages[m].send == send) found.push_back({id, &plan.messages[m].view});
      }
    } else if (auto* collective = std::get_if<Collective>(&op.work)) {
      found.push_back({id, send ? &collective->send : &collective->receive});
    }
  }
  return found;
}

bool same_size(const View& a, const View& b) {
  return a.tensor == b.tensor && a.rows == b.rows && a.cols == b.cols && a.strips == b.strips;
}

template <class Finish>
void exchange_slices(const Original& original, const Visit& visit, Finish finish) {
  each_rank(original, visit, [&](const Plan& plan, const auto& emit) {
    for (const Lane lane : {Lane::compute, Lane::gather, Lane::scatter}) {
      for (const bool send : {false, true}) {
        Plan sound = plan;
        const std::size_t count = slots(sound, lane, send).size();
        for (std::size_t i = 0; i + 1 < count; ++i) {
          Plan damaged = plan;
          const std::vector<Slot> pair = slots(damaged, lane, send);
          const Slot& a = pair[i];
          const Slot& b = pair[i + 1];
          if (*a.view == *b.view || !same_size(*a.view, *b.view)) continue;
          std::swap(*a.view, *b.view);
          emit(fmt::format("what ops {} and {} {} is exchanged", a.op, b.op,
                           send ? "send" : "receive"),
               finish(damaged));
        }
      }
    }
  });
}

void exchange_slices_kept(const Original& original, const Visit& visit) {
  exchange_slices(original, visit, [](const Plan& plan) { return plan; });
}

void exchange_slices_inferred(const Original& original, const Visit& visit) {
  exchange_slices(original, visit,
                  [&](const Plan& plan) { return inferred(plan, original.workload); });
}

// ---- a transfer is shortened --------------------------------------------------------------------

/// One row less, or one column where there is one row.
bool shorten(View& view) {
  if (view.rows > 1) {
    --view.rows;
  } else if (view.cols > 1) {
    --view.cols;
  } else {
    return false;
  }
  return true;
}

bool shorten_message(Plan& plan, MessageId id) {
  Message& message = plan.messages[id];
  if (!shorten(message.view)) return false;
  resize(plan, message);
  return true;
}

void shorten_receive(const Original& original, const Visit& visit) {
  each_rank(original, visit, [](const Plan& plan, const auto& emit) {
    for (MessageId id = 0; id < plan.messages.size(); ++id) {
      if (plan.messages[id].send) continue;
      Plan damaged = plan;
      if (shorten_message(damaged, id)) emit(fmt::format("message {} shortened", id), damaged);
    }
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      Plan damaged = plan;
      auto* collective = std::get_if<Collective>(&damaged.ops[id].work);
      if (collective != nullptr && shorten(collective->receive)) {
        emit(fmt::format("what op {} receives is shortened", id), damaged);
      }
    }
  });
}

/// Where the other side of a message lies: rank and message.
std::optional<std::pair<std::size_t, MessageId>> partner_of(const Original& original,
                                                            const Plan& plan, OpId op,
                                                            MessageId id) {
  const Message& message = plan.messages[id];
  const auto peer = static_cast<std::size_t>(message.peer);
  for (const Op& other : original.plans[peer].ops) {
    const auto* exchange = std::get_if<Exchange>(&other.work);
    if (exchange == nullptr || other.lane != plan.ops[op].lane) continue;
    for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
      const Message& candidate = original.plans[peer].messages[m];
      if (candidate.peer == plan.rank && candidate.send != message.send &&
          candidate.sequence == message.sequence) {
        return std::pair(peer, m);
      }
    }
  }
  return std::nullopt;
}

void shorten_both_sides(const Original& original, const Visit& visit) {
  for (const Plan& plan : original.plans) {
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      const auto* exchange = std::get_if<Exchange>(&plan.ops[id].work);
      if (exchange == nullptr) continue;
      for (MessageId m = exchange->first; m < exchange->first + exchange->count; ++m) {
        if (plan.messages[m].send) continue;
        const auto [peer, sent] = partner_of(original, plan, id, m).value();
        Mutant mutant{
            fmt::format("rank {}, op {}: message {} shortened, and its sender's", plan.rank, id, m),
            copy_of(original)};
        if (shorten_message(mutant.plans[static_cast<std::size_t>(plan.rank)], m) &&
            shorten_message(mutant.plans[peer], sent)) {
          visit(mutant);
        }
      }
    }
  }
}

// ---- a partial is not added ---------------------------------------------------------------------

void remove_accumulate(const Original& original, const Visit& visit) {
  each_rank(original, visit, [&](const Plan& plan, const auto& emit) {
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      if (!std::holds_alternative<Accumulate>(plan.ops[id].work)) continue;
      emit(fmt::format("op {} ({}) removed", id, describe(plan, id)),
           inferred(plan, original.workload, id));
    }
  });
}

void drop_epilogue(const Original& original, const Visit& visit) {
  each_rank(original, visit, [&](const Plan& plan, const auto& emit) {
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      Plan damaged = plan;
      auto* gemm = std::get_if<Gemm>(&damaged.ops[id].work);
      auto* gradient = std::get_if<GammaGradient>(&damaged.ops[id].work);
      auto* attention = std::get_if<AttentionGradient>(&damaged.ops[id].work);
      if (gemm != nullptr && gemm->c) {
        gemm->c.reset();
      } else if (gradient != nullptr && gradient->adds) {
        gradient->adds = false;
      } else if (attention != nullptr && attention->adds) {
        attention->adds = false;
      } else {
        continue;
      }
      emit(fmt::format("op {} adds no C", id), inferred(damaged, original.workload));
    }
  });
}

void drop_a_term(const Original& original, const Visit& visit) {
  each_rank(original, visit, [&](const Plan& plan, const auto& emit) {
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      Plan damaged = plan;
      auto* sum = std::get_if<Accumulate>(&damaged.ops[id].work);
      if (sum == nullptr || sum->terms.strips == 1) continue;
      --sum->terms.strips;
      emit(fmt::format("op {} adds one term less", id), inferred(damaged, original.workload));
    }
  });
}

// ---- views are changed --------------------------------------------------------------------------

/// Every view of an op, to be changed in place.
std::vector<View*> views_of(Plan& plan, OpId id) {
  Op& op = plan.ops[id];
  if (auto* gemm = std::get_if<Gemm>(&op.work)) {
    std::vector<View*> views{&gemm->d, &gemm->a, &gemm->b};
    if (gemm->c) views.push_back(&*gemm->c);
    return views;
  }
  if (auto* attention = std::get_if<Attention>(&op.work)) {
    return {&attention->o, &attention->q, &attention->k, &attention->v};
  }
  if (auto* gradient = std::get_if<AttentionGradient>(&op.work)) {
    return {&gradient->dq, &gradient->dk, &gradient->dv, &gradient->d_o,
            &gradient->q,  &gradient->k,  &gradient->v};
  }
  if (auto* elementwise = std::get_if<Elementwise>(&op.work)) {
    return {&elementwise->y, &elementwise->x};
  }
  if (auto* gradient = std::get_if<ActivationGradient>(&op.work)) {
    return {&gradient->dx, &gradient->dy, &gradient->x};
  }
  if (auto* norm = std::get_if<Norm>(&op.work)) return {&norm->y, &norm->x, &norm->gamma};
  if (auto* gradient = std::get_if<NormGradient>(&op.work)) {
    return {&gradient->dx, &gradient->dy, &gradient->x, &gradient->gamma};
  }
  if (auto* gradient = std::get_if<GammaGradient>(&op.work)) {
    return {&gradient->d, &gradient->dy, &gradient->x};
  }
  if (auto* residual = std::get_if<Residual>(&op.work)) {
    return {&residual->y, &residual->x, &residual->r};
  }
  if (auto* adam = std::get_if<Adam>(&op.work)) {
    std::vector<View*> views{&adam->new_w, &adam->new_m, &adam->new_v, &adam->w,
                             &adam->m,     &adam->v,     &adam->g};
    if (adam->copy) views.push_back(&*adam->copy);
    return views;
  }
  if (auto* sum = std::get_if<Accumulate>(&op.work)) return {&sum->d, &sum->a, &sum->terms};
  if (auto* copy = std::get_if<Copy>(&op.work)) return {&copy->d, &copy->s};
  if (auto* collective = std::get_if<Collective>(&op.work)) {
    return {&collective->send, &collective->receive};
  }
  const auto& exchange = std::get<Exchange>(op.work);
  std::vector<View*> views;
  for (MessageId m = exchange.first; m < exchange.first + exchange.count; ++m) {
    views.push_back(&plan.messages[m].view);
  }
  return views;
}

/// Two places in scratch that communication reads or writes become one.
void reuse_scratch(const Original& original, const Visit& visit) {
  each_rank(original, visit, [&](const Plan& plan, const auto& emit) {
    std::vector<View> landings;
    for (const Message& message : plan.messages) {
      if (message.view.tensor >= plan.workload_tensors) landings.push_back(message.view);
    }
    for (const Op& op : plan.ops) {
      const auto* collective = std::get_if<Collective>(&op.work);
      if (collective == nullptr) continue;
      for (const View& view : {collective->send, collective->receive}) {
        if (view.tensor >= plan.workload_tensors) landings.push_back(view);
      }
    }
    for (std::size_t i = 0; i < landings.size(); ++i) {
      for (std::size_t j = i + 1; j < landings.size(); ++j) {
        if (!same_size(landings[i], landings[j])) continue;
        Plan damaged = plan;
        const std::int32_t moved = landings[i].row - landings[j].row;
        for (OpId id = 0; id < damaged.ops.size(); ++id) {
          for (View* view : views_of(damaged, id)) {
            const bool lies_there = view->tensor == landings[j].tensor && view->strips == 1 &&
                                    view->row >= landings[j].row &&
                                    view->row + view->rows <= landings[j].row + landings[j].rows;
            // A view in strips that covers the landing exactly is moved like one in one piece.
            const bool covers = view->strips > 1 && view->tensor == landings[j].tensor &&
                                view->row == landings[j].row && view->row_step == view->rows &&
                                view->total_rows() == landings[j].total_rows();
            if (lies_there || covers) view->row += moved;
          }
        }
        emit(fmt::format("{} lies where {} does",
                         describe(landings[j], plan.tensors[landings[j].tensor]),
                         describe(landings[i], plan.tensors[landings[i].tensor])),
             damaged);
      }
    }
  });
}

/// Moves the view by its own rows (by a whole part), down where that fits, else up; a block of
/// columns by its own columns.
bool move_by_a_part(const Plan& plan, View& view) {
  for (const auto& [down, right] :
       {std::pair{view.rows, 0}, {-view.rows, 0}, {0, view.cols}, {0, -view.cols}}) {
    View moved = view;
    moved.row += down;
    moved.col += right;
    if (inside(moved, plan.tensors)) {
      view = moved;
      return true;
    }
  }
  return false;
}

void shift_view(const Original& original, const Visit& visit) {
  each_rank(original, visit, [&](const Plan& plan, const auto& emit) {
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      Plan sound = plan;
      for (std::size_t v = 0; v < views_of(sound, id).size(); ++v) {
        Plan damaged = plan;
        View& view = *views_of(damaged, id)[v];
        if (!move_by_a_part(plan, view)) continue;
        emit(fmt::format("op {}: view {} is now {}", id, v,
                         describe(view, plan.tensors[view.tensor])),
             inferred(damaged, original.workload));
      }
    }
  });
}

// ---- the order of events is reversed ------------------------------------------------------------

/// The plan with its ops in this order, given as their ids of before; messages follow their ops.
Plan reordered(const Plan& plan, std::span<const OpId> order) {
  Plan result = plan;
  result.ops.clear();
  result.messages.clear();
  std::vector<OpId> op_now(plan.ops.size());
  std::vector<MessageId> message_now(plan.messages.size());
  for (const OpId id : order) {
    op_now[id] = static_cast<OpId>(result.ops.size());
    Op& op = result.ops.emplace_back(plan.ops[id]);
    auto* exchange = std::get_if<Exchange>(&op.work);
    if (exchange == nullptr) continue;
    const MessageId first =
        std::exchange(exchange->first, static_cast<MessageId>(result.messages.size()));
    for (MessageId m = first; m < first + exchange->count; ++m) {
      message_now[m] = static_cast<MessageId>(result.messages.size());
      result.messages.push_back(plan.messages[m]);
    }
  }
  for (Dependency& dependency : result.dependencies) {
    dependency.op = op_now[dependency.op];
    if (dependency.message != kWholeOp) dependency.message = message_now[dependency.message];
  }
  renumber(result);
  return result;
}

/// The order in which `late` comes right before `early`, an earlier op of its lane. What needs
/// `early`, and what comes after that on its lane, follows it; where `late` itself is among these,
/// the two just change places, and one waits for a later op.
std::vector<OpId> order_with(const Plan& plan, OpId early, OpId late) {
  std::vector<bool> follows(plan.ops.size(), false);
  std::array<bool, kLanes> lane_follows{};
  const auto needs_a_follower = [&](const Op& op) {
    return std::ranges::any_of(plan.dependencies_of(op),
                               [&](const Dependency& on) { return follows[on.op]; });
  };
  follows[early] = true;
  for (OpId id = early + 1; id <= late; ++id) {
    const Op& op = plan.ops[id];
    bool& lane = lane_follows[static_cast<std::size_t>(op.lane)];
    follows[id] = needs_a_follower(op) || (lane && id != late);
    lane = lane || follows[id];
  }
  std::vector<OpId> order(plan.ops.size());
  std::iota(order.begin(), order.end(), OpId{0});
  if (follows[late]) {
    std::swap(order[early], order[late]);
  } else {
    std::stable_partition(order.begin() + early, order.begin() + late + 1,
                          [&](OpId id) { return !follows[id]; });
  }
  return order;
}

void reverse_order(const Original& original, const Visit& visit) {
  each_rank(original, visit, [](const Plan& plan, const auto& emit) {
    std::array<std::optional<OpId>, kLanes> previous;
    for (OpId id = 0; id < plan.ops.size(); ++id) {
      if (compute_of(plan.ops[id])) continue;
      std::optional<OpId>& before = previous[static_cast<std::size_t>(plan.ops[id].lane)];
      if (before) {
        emit(fmt::format("ops {} and {} in reversed order", *before, id),
             reordered(plan, order_with(plan, *before, id)));
      }
      before = id;
    }
  });
}

constexpr std::array kKinds{
    MutationKind{"dropped dependency", &drop_dependency, "other dependencies imply it"},
    MutationKind{"swapped peers, one rank", &swap_peers_of_one_rank, ""},
    MutationKind{"swapped peers, all ranks", &swap_peers_of_all_ranks, ""},
    MutationKind{"two slices exchanged, kept", &exchange_slices_kept, ""},
    MutationKind{"two slices exchanged, inferred", &exchange_slices_inferred,
                 "both are terms of one sum"},
    MutationKind{"shortened receive", &shorten_receive, ""},
    MutationKind{"shortened receive and send", &shorten_both_sides, ""},
    MutationKind{"accumulate removed", &remove_accumulate, ""},
    MutationKind{"epilogue C dropped", &drop_epilogue, ""},
    MutationKind{"term of a sum dropped", &drop_a_term, ""},
    MutationKind{"scratch reused", &reuse_scratch,
                 "all uses of one end before those of the other begin"},
    MutationKind{"view moved by one part", &shift_view, ""},
    MutationKind{"order reversed on one rank", &reverse_order,
                 "the transfers go to different peers"},
};

}  // namespace

std::span<const MutationKind> mutation_kinds() { return kKinds; }

}  // namespace commfuse
