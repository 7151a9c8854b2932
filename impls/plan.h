// SPDX-License-Identifier: Apache-2.0
// A plan is a value: the operations of one rank on lanes, with dependencies. It can be printed,
// verified, transformed, simulated and executed; executors know neither workloads nor
// implementations.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "suite/workload.h"

namespace commfuse {

/// Compute ops and collectives of a lane run one after the other; exchanges start in lane order and
/// each message completes on its own, so that the lane goes on once an exchange has started; an
/// executor may go on with messages of one direction ahead of the other. Across lanes only
/// dependencies count.
enum class Lane : std::uint8_t { compute, gather, scatter };
constexpr std::size_t kLanes = 3;
constexpr std::size_t index_of(Lane lane) { return static_cast<std::size_t>(lane); }
std::string_view name_of(Lane lane);

using OpId = std::uint32_t;
using MessageId = std::uint32_t;
constexpr MessageId kWholeOp = ~MessageId{0};

/// One side of a point-to-point transfer. Messages match by (source, destination, lane, sequence);
/// `sequence` counts the messages of that triple and direction on this rank, from 0.
struct Message {
  bool send = false;
  std::int32_t peer = 0;
  View view;
  std::int64_t logical_bytes = 0;
  std::int64_t wire_bytes = 0;  // what travels; equal to logical_bytes unless a codec changes it
  std::uint32_t sequence = 0;
  /// What this message alone waits for: a sub-range of its op's dependencies.
  std::uint32_t first_dependency = 0;
  std::uint32_t dependencies = 0;
};

/// A group of messages that starts together: plan.messages[first, first + count).
struct Exchange {
  MessageId first = 0;
  std::uint32_t count = 0;
};

enum class CollectiveKind : std::uint8_t { all_gather, reduce_scatter, all_to_all, all_reduce };
inline constexpr std::array kCollectiveKinds{
    CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all,
    CollectiveKind::all_reduce};
std::string_view name_of(CollectiveKind kind);

/// How a transport's library is asked for a collective (NCCL knows all of them): with memory as it
/// is, with memory registered with it, with windows that lie at equal offsets on all ranks, or with
/// such windows and no multiprocessor taking part. The result is the same.
enum class CollectiveVia : std::uint8_t { standard, registered, symmetric, copy_engine };
inline constexpr std::array kCollectiveVia{CollectiveVia::standard, CollectiveVia::registered,
                                           CollectiveVia::symmetric, CollectiveVia::copy_engine};
/// "default", "registered", ...
std::string_view name_of(CollectiveVia via);

/// Both views are contiguous. all_gather: receive is ranks x send, in rank order (send may lie in
/// its place in receive). reduce_scatter: send is ranks x receive, summed over ranks in fp32 or as
/// the transport does it. all_to_all: both are ranks equal blocks; block j of send becomes this
/// rank's block of receive on rank j. all_reduce: both have the same shape and do not overlap; the
/// sum is made as in a reduce_scatter, and its bits are the same on every rank.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_gather;
  View send, receive;
  CollectiveVia via = CollectiveVia::standard;
};

/// Bytes that each rank sends at the least: a block to every other rank; in an all_reduce as a ring
/// does, a share 1/ranks 2 * (ranks - 1) times, rounded up to whole bytes.
std::int64_t least_bytes_sent(const Collective& collective, std::int32_t ranks,
                              std::span<const Tensor> tensors);

using Work = std::variant<Gemm, Attention, AttentionGradient, Elementwise, ActivationGradient, Norm,
                          NormGradient, GammaGradient, Residual, Adam, Accumulate, Copy, Exchange,
                          Collective>;

/// A completed op, or one completed message of an exchange.
struct Dependency {
  OpId op = 0;
  MessageId message = kWholeOp;
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct Op {
  Work work;
  Lane lane = Lane::compute;
  std::uint16_t stage = 0;  // index in the workload's stages
  std::uint32_t first_dependency = 0;
  std::uint32_t dependencies = 0;
};

struct Plan {
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  Portion portion = Portion::schedule;  // what of the workload the plan does
  std::vector<Tensor> tensors;          // the workload's, then scratch
  std::size_t workload_tensors =
      0;  // tensors[workload_tensors..] is scratch of this plan; never reused within it
  std::vector<Op> ops;  // in emission order, which is also the order within each lane
  std::vector<Message> messages;
  std::vector<Dependency> dependencies;
  std::vector<View> inputs;   // defined before the plan starts
  std::vector<View> outputs;  // must be written by the plan
  bool communicates =
      true;  // false: transform.h took the communication out, and made what it received inputs

  [[nodiscard]] std::span<const Dependency> dependencies_of(const Op& op) const;
  [[nodiscard]] std::span<const Dependency> dependencies_of(const Message& message) const;
  [[nodiscard]] std::span<const Message> messages_of(const Exchange& exchange) const;
  [[nodiscard]] std::int64_t scratch_bytes() const;
};

/// A compute op of the plan as suite knows it; nullopt for exchanges and collectives.
std::optional<Compute> compute_of(const Op& op);

/// What an op, or one message of it, touches.
struct Access {
  View view;
  bool write = false;
  MessageId message = kWholeOp;
};
std::vector<Access> accesses(const Plan& plan, const Op& op);

/// Whether a view names an existing tensor, is not empty and lies inside it.
bool inside(const View& view, std::span<const Tensor> tensors);

class DependencyFinder;
class DueBefore;

/// Appends ops and finds their dependencies: an op (or message) depends on every earlier one whose
/// views overlap its own where one of the two writes. What lane order already implies is left out
/// (dependency_finder.h). Near constant time per op. Views outside their tensor throw
/// std::out_of_range.
class PlanBuilder {
 public:
  PlanBuilder(const Workload& workload, std::int32_t rank);
  ~PlanBuilder();
  PlanBuilder(const PlanBuilder&) = delete;
  PlanBuilder& operator=(const PlanBuilder&) = delete;

  [[nodiscard]] std::int32_t rank() const;
  [[nodiscard]] std::int32_t ranks() const;
  [[nodiscard]] const Tensor& tensor(TensorId id) const;

  /// Later ops belong to this stage of the workload.
  void begin_stage(std::size_t index);
  TensorId scratch(std::string_view name, std::int32_t rows, std::int32_t cols, DType dtype);

  /// A gemm that adds to its own D (C is D), or a GammaGradient or AttentionGradient that adds,
  /// adds nothing where it is the first op of the plan that writes there, so that phases which
  /// accumulate over tiles need not know which tile comes first.
  void compute(const Compute& op);
  void compute(std::span<const Compute> ops);
  /// Appends the op right before the first later op that conflicts with it, else at the end of the
  /// plan: for what the compute lane should not wait for before it must. Such ops keep their order
  /// among themselves where they conflict.
  void compute_later(const Compute& op);
  struct Transfer {
    bool send = false;
    std::int32_t peer = 0;
    View view;
  };
  struct Transfers {
    Lane lane = Lane::gather;
    std::vector<Transfer> transfers;
  };
  /// Message sizes and sequences are filled in here. No transfers, no op. Exchanges and collectives
  /// of a lane keep the order in which they were asked for, so it is the same on every rank.
  void exchange(Lane lane, std::span<const Transfer> transfers);
  /// Appends the exchange once the next stage has been lowered, or before what compute_later says:
  /// for what depends on ops that are put off.
  void exchange_later(Lane lane, std::span<const Transfer> transfers);
  void collective(Lane lane, const Collective& collective);
  /// The peers whose messages into `tensor` have been emitted so far, in order of their first one.
  [[nodiscard]] std::vector<std::int32_t> arrivals(TensorId tensor) const;

  /// Gives the plan up; the builder is empty afterwards. `outputs` is what the plan must have
  /// written.
  Plan take(std::vector<View> inputs, std::vector<View> outputs);

 private:
  struct Deferred {
    std::variant<Compute, Transfers> op;
    std::uint16_t stage = 0;
    std::vector<Access> touched;  // by it

    [[nodiscard]] Lane lane() const {
      const auto* group = std::get_if<Transfers>(&op);
      return group ? group->lane : Lane::compute;
    }
  };

  void append(Work work, Lane lane);
  void append(const Compute& op);
  void append(const Transfers& group);
  void append_all(std::span<const Deferred> deferred);
  void append_deferred(DueBefore due, std::size_t end);
  void require_inside(std::span<const View> views) const;
  void require_inside(const View& view) const;

  Plan plan_;
  std::unique_ptr<DependencyFinder> finder_;
  std::vector<std::uint32_t> sequences_;  // next one by peer, lane and direction
  std::vector<Deferred> deferred_;
  std::uint16_t stage_ = 0;
};

}  // namespace commfuse
