// SPDX-License-Identifier: Apache-2.0
// Runs the plans of all ranks in one process and one thread, in an order that an adversary picks
// among all orders that a real executor could produce:
//   - compute ops and collectives of a lane run one after the other;
//   - exchanges start in lane order, and the lane goes on at once. By seed, an exchange starts as a
//     group, when all that it waits for is done (as a grouped library call does), or each of its
//     messages on its own, when what that message waits for is done, sends in order and receives in
//     order (as an engine with a queue for either does). The first finds the deadlocks, the second
//     the races;
//   - each side of a message completes on its own, once both sides have started. The data leave the
//     sender's view when it starts or as late as possible (at the first completion of either side),
//     and reach the receiver's view when its side completes;
//   - a collective completes on each rank on its own, once all ranks have started it.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "impls/plan.h"
#include "tests/conformance/reference_memory.h"

namespace commfuse {

/// A plan that cannot be executed: deadlock, sizes that do not meet, views outside their tensors.
/// The message names op, rank and view.
class ExecutionError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ReferenceExecutor {
 public:
  /// Plans of ranks 0, 1, ...; they must outlive the executor. Throws ExecutionError if a view lies
  /// outside its tensor.
  explicit ReferenceExecutor(std::span<const Plan> plans);

  /// Whether exchanges start as groups with this seed, or message by message. The adversary takes
  /// its mode from the two lowest bits; the third is mixed in here, so that two seeds meet both
  /// ways and eight every mode in both.
  static bool starts_as_groups(std::uint64_t seed);

  /// One iteration on `memory`, made for these plans or for the plans that they were transformed
  /// from. Throws ExecutionError.
  void run(ReferenceMemory& memory, std::uint64_t seed);

  /// Who wrote this element last in the latest run: "last written by rank 1 op 7 (...)", or who
  /// wrote to its tensor last if nobody wrote the element.
  [[nodiscard]] std::string last_writer(std::int32_t rank, TensorId tensor, std::int32_t row,
                                        std::int32_t col) const;

 private:
  static constexpr std::uint32_t kNone = ~0U;

  /// An op, counted over all ranks.
  struct Node {
    std::int32_t rank = 0;
    OpId id = 0;
    std::uint32_t first_wire = 0;  // of an exchange
    std::uint32_t wires = 0;
    std::uint32_t collective = kNone;  // which meeting of the ranks this is
  };
  /// One side of a message, counted over all ranks.
  struct Wire {
    std::uint32_t op = 0;
    MessageId id = 0;
    std::uint32_t partner = kNone;  // the other side
  };
  /// What starts at once: an op, or one message of an exchange.
  struct Unit {
    std::uint32_t op = 0;
    std::uint32_t first_wire = 0;
    std::uint32_t wires = 0;
    std::uint32_t waits = 0;                 // for what is below in other units and messages
    std::vector<std::uint32_t> after_start;  // units whose turn comes once this one has started
    std::vector<std::uint32_t> after_done;   // units that wait for this one, or come after it
  };
  /// Who waits for whom, with exchanges started as groups or message by message.
  struct Order {
    std::vector<Unit> units;
    std::vector<std::uint32_t> unit_of_op;                  // the first one of an exchange
    std::vector<std::vector<std::uint32_t>> after_message;  // units that wait for a message
    /// Compute op or collective, and a unit that waits for it; collected while units are added.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waits_for_op;
  };

  /// An op, or a message of it, in the order of completion.
  struct Completed {
    std::uint32_t op = 0;
    MessageId message = kWholeOp;
  };
  class LaneOrder;
  class Run;

  void check_views(const Plan& plan) const;
  void add_ops(const Plan& plan);
  void match_messages();
  void match_collectives();
  [[nodiscard]] Order order(bool grouped) const;
  void add_unit(Order& order, const Unit& unit, std::span<const Dependency> dependencies) const;

  [[nodiscard]] const Plan& plan_of(const Node& node) const {
    return plans_[static_cast<std::size_t>(node.rank)];
  }
  [[nodiscard]] const Op& op_of(const Node& node) const { return plan_of(node).ops[node.id]; }
  [[nodiscard]] const Message& message_of(const Wire& wire) const {
    return plan_of(nodes_[wire.op]).messages[wire.id];
  }
  [[nodiscard]] std::string name_of(std::uint32_t op) const;

  std::span<const Plan> plans_;
  std::vector<std::uint32_t> first_op_;       // of each rank
  std::vector<std::uint32_t> first_message_;  // of each rank
  std::vector<Node> nodes_;
  std::vector<Wire> wires_;
  std::vector<std::vector<std::uint32_t>> collectives_;  // ops of the ranks that meet
  Order grouped_;
  Order single_;
  std::vector<Completed> log_;
};

}  // namespace commfuse
