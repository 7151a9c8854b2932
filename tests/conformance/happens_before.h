// SPDX-License-Identifier: Apache-2.0
// Which events of a set of plans are ordered in every execution. Written apart from verify(), by
// the full closure of a graph: the mutation tests use it to tell whether damage that nobody noticed
// can do any harm.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "impls/plan.h"

namespace commfuse {

/// Why some execution of these plans can end in a deadlock or depend on timing, whether exchanges
/// start as groups or message by message: a message or collective without partner, events that wait
/// for each other in a circle, or two conflicting accesses of one rank that nothing orders. Empty
/// if every execution ends with the same values.
std::string hazard(std::span<const Plan> plans);

/// The events of one way to start exchanges (reference_executor.h).
class HappensBefore {
 public:
  /// Plans of ranks 0, 1, ...; they must outlive this.
  HappensBefore(std::span<const Plan> plans, bool grouped);

  /// Messages and collectives without partner, or events that wait for each other; empty if none.
  [[nodiscard]] std::string deadlock() const;
  /// Two conflicting accesses that nothing orders; empty if none. Requires deadlock() to be empty.
  [[nodiscard]] std::string race() const;

 private:
  using Event = std::uint32_t;
  /// What one op, or one message of it, touches between two events.
  struct Use {
    std::int32_t rank = 0;
    OpId op = 0;
    View view;
    bool write = false;
    Event begin = 0;
    Event end = 0;
  };
  struct Interval {
    Event begin = 0;
    Event end = 0;
  };
  struct Lanes;

  Event new_event();
  void edge(Event from, Event to) { after_[from].push_back(to); }
  void add_plan(const Plan& plan, bool grouped);
  void add_exchange(const Plan& plan, OpId id, bool grouped, Lanes& lanes);
  void add_op(const Plan& plan, OpId id, Lanes& lanes);
  void wait(std::size_t rank, const Plan& plan, std::span<const Dependency> dependencies,
            Event event);
  void match_messages();
  void match_collectives();
  void close();
  [[nodiscard]] bool ordered(const Use& a, const Use& b) const;

  std::span<const Plan> plans_;
  std::vector<std::vector<Interval>> ops_;       // of each rank; not for exchanges
  std::vector<std::vector<Interval>> messages_;  // of each rank
  std::vector<std::vector<Event>> after_;        // direct successors of an event
  std::vector<std::vector<bool>> reaches_;       // all successors; empty if there is a circle
  std::vector<Use> uses_;
  std::string unmatched_;
};

}  // namespace commfuse
