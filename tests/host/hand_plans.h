// SPDX-License-Identifier: Apache-2.0
// Plans written by hand: tensors of one row per slot, copies and messages between slots.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/host/host_executor.h"
#include "harness/host/paced_transport.h"
#include "harness/world/thread_world.h"
#include "impls/plan.h"

namespace commfuse {

constexpr std::int32_t kSlots = 8;
constexpr std::int32_t kSlotColumns = 1024;
constexpr std::int64_t kSlotBytes = kSlotColumns * 4;

/// One tensor; slot s is its row s.
inline Workload slot_workload(std::int32_t ranks) {
  Workload workload;
  workload.ranks = ranks;
  workload.tensors = {{"slots", kSlots, kSlotColumns, DType::f32}};
  return workload;
}

inline View slots(std::int32_t first, std::int32_t count = 1) {
  return {.tensor = 0, .row = first, .rows = count, .cols = kSlotColumns};
}

inline Copy copy_slot(std::int32_t to, std::int32_t from) { return {slots(to), slots(from)}; }

inline PlanBuilder::Transfer send(std::int32_t peer, std::int32_t slot) {
  return {.send = true, .peer = peer, .view = slots(slot)};
}
inline PlanBuilder::Transfer receive(std::int32_t peer, std::int32_t slot) {
  return {.send = false, .peer = peer, .view = slots(slot)};
}

using Emit = std::function<void(PlanBuilder& plan)>;

inline Plan hand_plan(std::int32_t rank, std::int32_t ranks, const Emit& emit) {
  PlanBuilder builder(slot_workload(ranks), rank);
  emit(builder);
  return builder.take({}, {});
}

}  // namespace commfuse
