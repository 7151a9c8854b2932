// SPDX-License-Identifier: Apache-2.0
// commfuse: a collective taken apart into one transfer per peer slice, each under the compute of
// another slice (CommFuse, arXiv 2604.24013, Algorithms 1 to 5). Rank r of P; slices modulo P; g =
// a slice arrives, c = it is computed, s = its partial leaves. Sketches for P = 4.
//
//   gather: the own slice needs nothing, so it is computed first; the others as they come in.
//     gather   [g r-1][g r-2][g r-3]
//     compute  [c r  ][c r-1][c r-2][c r-3]
//   reduce_scatter: what leaves is computed first, what stays last.
//     compute  [c r-1][c r-2][c r-3][c r  ]
//     scatter         [s r-1][s r-2][s r-3]
//   both: the first phase of the own slice, then all phases of each slice as it comes in, last the
//   remaining phases of the own slice.
//     gather   [g r-1][g r-2][g r-3]
//     compute  [c' r ][c r-1][c r-2][c r-3][c" r ]
//     scatter                [s r-1][s r-2][s r-3]
//   all_to_all: as reduce_scatter, with nothing to add (Algorithm 5).
//     compute  [c r-1][c r-2][c r-3][c r  ]
//     scatter         [s r-1][s r-2][s r-3]
//   pieces of an earlier all_to_all come in the other way round, from r+1, r+2, ..., and are taken
//   so: the own slice first, or last where results leave (which go to r+1, r+2, ... then).
//     compute  [c r  ][c r+1][c r+2][c r+3]        compute  [c r+1][c r+2][c r+3][c r  ]
//                                                  scatter         [s r+1][s r+2][s r+3]
//   A stage without phases sends what is there, and copies what stays.
//   Whatever stays is put off until another op needs it, or to the end: where the partial of an own
//   slice travels, the compute of later stages hides it.
//   What works on the own slice alone (a residual, a norm) is cut into its parts: part i waits for
//   part i of what an earlier stage leaves, and part i of a gather for part i of it.
//   all_reduce: reduce_scatter, then the slices gather under the compute of later stages: the own
//   one and all hops are put off until the next stage has been computed, as far as that can be.
//     compute  [c r-1][c r-2][c r-3][ next stage ][c r  ][ later stages    ]
//     scatter         [s r-1][s r-2][s r-3]
//     gather                                             [g r-1][g r-2][g r-3]
//   Of what is made of the own slice alone (a norm's gamma) there are no slices to reduce: one
//   collective, beside whatever compute there is.
//
// order=ring: slices travel from neighbour to neighbour; the partial of slice b comes in from r-1,
//   grows by the own one and goes on to r+1. order=direct: slices go straight to whom they belong,
//   as those of an all_to_all do in either order. TransformerEngine's userbuffers and CUTLASS's
//   distributed GEMM ship the same two orders.
// m: parts per peer slice, one number for all stages: by default 2 if any stage of the workload
//   reduces with epilogue, else 1.
// accumulate: where a received partial is added. epilogue: as C of the last gemm, at no cost, but
//   the gemm waits for it; so m >= 2, since part i+1 is computed while part i travels. add: in ops
//   of their own. once (direct): one op sums all received partials and the own one in fp32.
//
// Hides every transfer: no head, no tail, if a transfer takes no longer than the compute beside it:
// T_comm <= T_comp * (1 - 2/(P*m)) with epilogue and m >= 2, <= T_comp * (1 - 1/(P*m)) with add.
// Cannot hide anything of a ring with epilogue and m = 1, and no more than that bound when links
// are slow; pays with gemm efficiency and one latency per part.
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "impls/implementation.h"
#include "impls/sliced.h"
#include "suite/error.h"

namespace commfuse {
namespace {

enum class Order : std::uint8_t { ring, direct };
enum class Accumulation : std::uint8_t { epilogue, add, once };

struct Options {
  Order order = Order::ring;
  std::int32_t parts = 1;  // m: parts per peer slice
  Accumulation accumulate = Accumulation::epilogue;
};

/// One stage being lowered on one rank.
class Decomposition {
 public:
  Decomposition(const Stage& stage, PlanBuilder& plan, const Options& options)
      : stage_(stage),
        plan_(plan),
        options_(options),
        outgoing_(outgoing(stage)),
        rank_(plan.rank()),
        ranks_(plan.ranks()),
        part_rows_(stage.axis.rows / options.parts) {
    if (!reduces() || ranks_ == 1) return;
    const Tensor result = plan.tensor(outgoing_->received);
    landing_ = plan.scratch(stage.name + ".landing", (ranks_ - 1) * stage.axis.rows, result.cols,
                            result.dtype);
  }

  void lower() {
    if (stage_.own_slice && outgoing_) {
      lower_sliced(stage_, plan_, {});
      return;
    }
    if (is_local(stage_)) {
      lower_local();
    } else if (outgoing_) {
      lower_outgoing();
    } else {
      lower_incoming();
    }
    if (stage_.all_reduce) gather_result();
  }

 private:
  /// Waits for no peer; but stages beside it, which do, may need or make only a part of its slice.
  void lower_local() {
    const std::int32_t parts = local_parts(stage_, options_.parts);
    for (std::int32_t i = 0; i < parts; ++i) {
      for (const Phase& phase : stage_.phases) {
        plan_.compute(phase(tile_of(stage_, rank_, i, parts), {}));
      }
    }
  }

  /// Takes what comes in: the own slice is there, the others follow.
  void lower_incoming() {
    const std::vector<std::int32_t> slices = slices_of_others();
    for (std::int32_t i = 0; i < options_.parts; ++i) compute(rank_, i, 0, {});
    for (std::int32_t s = 0; s < ranks_ - 1; ++s) {
      for (std::int32_t i = 0; i < options_.parts; ++i) {
        if (stage_.gather) plan_.exchange(Lane::gather, hop(stage_.gather->buffer, s, i));
        compute(slices[index(s)], i, 0, {});
      }
    }
  }

  /// Computes first what leaves, and last what stays.
  void lower_outgoing() {
    const std::vector<std::int32_t> slices = slices_of_others();
    // The own slice fills the time until the first slice arrives, except with its last phase.
    const std::size_t early = stage_.gather && stage_.phases.size() > 1 ? 1 : 0;
    for (std::size_t phase = 0; phase < early; ++phase) {
      for (std::int32_t i = 0; i < options_.parts; ++i) {
        plan_.compute(stage_.phases[phase](tile(rank_, i), {}));
      }
    }
    for (std::int32_t s = 0; s < ranks_ - 1; ++s) {
      const std::int32_t slice = slices[index(s)];
      for (std::int32_t i = 0; i < options_.parts; ++i) {
        if (stage_.gather) plan_.exchange(Lane::gather, hop(stage_.gather->buffer, s, i));
        compute(slice, i, 0, {.d = {}, .c = riding(s, i)});
        if (reduces() && options_.order == Order::ring && s > 0) add(computed(slice, i), s - 1, i);
        send(slice, s, i);
      }
    }
    for (std::int32_t i = 0; i < options_.parts; ++i) {
      const View result = own_result(i);
      compute_later(early, i, {.d = result, .c = riding(ranks_ - 1, i)});
      if (reduces()) add_received(result, i);
    }
  }

  /// The reduced slices travel on, under the compute of later stages. They would call for the own
  /// slice at once, so they are put off as it is, until the next stage has given it time.
  void gather_result() {
    for (std::int32_t s = 0; s < ranks_ - 1; ++s) {
      for (std::int32_t i = 0; i < options_.parts; ++i) {
        plan_.exchange_later(Lane::gather, hop(outgoing_->received, s, i));
      }
    }
  }

  /// Slices of the axis.
  [[nodiscard]] bool reduces() const {
    return !stage_.own_slice && (stage_.reduce_scatter || stage_.all_reduce);
  }

  /// In the order in which they come in or leave: r-1, r-2, ...; pieces of an earlier all-to-all in
  /// the order of their messages, which is the other way round.
  [[nodiscard]] std::vector<std::int32_t> slices_of_others() const {
    std::vector<std::int32_t> slices;
    if (stage_.pieces) slices = plan_.arrivals(stage_.pieces->buffer);
    for (std::int32_t s = 0; s < ranks_ - 1 && !stage_.pieces; ++s) slices.push_back(peer(-1 - s));
    return slices;
  }
  [[nodiscard]] static std::size_t index(std::int32_t step) {
    return static_cast<std::size_t>(step);
  }
  [[nodiscard]] std::int32_t peer(std::int32_t offset) const {
    return (rank_ + offset + ranks_) % ranks_;
  }
  [[nodiscard]] Tile tile(std::int32_t slice, std::int32_t part) const {
    return {.peer = slice, .part = part, .parts = options_.parts};
  }

  void compute(std::int32_t slice, std::int32_t part, std::size_t first_phase,
               const Target& target) {
    for (std::size_t i = first_phase; i < stage_.phases.size(); ++i) {
      const bool last = i + 1 == stage_.phases.size();
      plan_.compute(stage_.phases[i](tile(slice, part), last ? target : Target{}));
    }
  }

  /// What stays is computed when somebody needs it: other stages may have compute to go on with
  /// while its partial travels.
  void compute_later(std::size_t first_phase, std::int32_t part, const Target& target) {
    if (stage_.phases.empty()) plan_.compute_later(Copy{*target.d, computed(rank_, part)});
    for (std::size_t i = first_phase; i < stage_.phases.size(); ++i) {
      const bool last = i + 1 == stage_.phases.size();
      for (const Compute& op : stage_.phases[i](tile(rank_, part), last ? target : Target{})) {
        plan_.compute_later(op);
      }
    }
  }

  /// Hop `step` brings part `part` of slice r-1-step, and passes on what the next rank needs.
  [[nodiscard]] std::array<PlanBuilder::Transfer, 2> hop(TensorId buffer, std::int32_t step,
                                                         std::int32_t part) const {
    const bool ring = options_.order == Order::ring;
    const View forward = view(buffer, ring ? peer(-step) : rank_, part);
    const View arriving = view(buffer, peer(-1 - step), part);
    return {PlanBuilder::Transfer{true, peer(ring ? 1 : 1 + step), forward},
            PlanBuilder::Transfer{false, peer(ring ? -1 : -1 - step), arriving}};
  }

  /// What was computed of `slice` leaves; another rank's comes in. In an all-to-all, and with
  /// order=direct, all ranks send to the same offset, so what comes in is from the opposite one.
  void send(std::int32_t slice, std::int32_t step, std::int32_t part) {
    const bool ring = reduces() && options_.order == Order::ring;
    const std::int32_t to = ring ? peer(1) : slice;
    const std::int32_t from = ring ? peer(-1) : peer(rank_ - slice);
    const View into = reduces() ? landing(step, part) : view(outgoing_->received, from, part);
    plan_.exchange(Lane::scatter, std::array{PlanBuilder::Transfer{true, to, computed(slice, part)},
                                             PlanBuilder::Transfer{false, from, into}});
  }

  /// The received partial that the gemm of step `step` adds in its epilogue.
  [[nodiscard]] std::optional<View> riding(std::int32_t step, std::int32_t part) const {
    if (!reduces() || options_.accumulate != Accumulation::epilogue || step == 0) {
      return std::nullopt;
    }
    return landing(step - 1, part);
  }
  /// In an op of its own, unless it rode along: into += what landed at `step`.
  void add(const View& into, std::int32_t step, std::int32_t part) {
    if (options_.accumulate == Accumulation::epilogue) return;
    plan_.compute(Accumulate{into, into, landing(step, part)});
  }
  /// The same for the own result, of which a ring's last partial has all others in it.
  void add_received(const View& result, std::int32_t part) {
    if (ranks_ == 1 || options_.accumulate == Accumulation::epilogue) return;
    if (options_.accumulate == Accumulation::once) {
      View all = landing(0, part);
      all.strips = ranks_ - 1;
      all.row_step = stage_.axis.rows;
      plan_.compute_later(Accumulate{result, result, all});
      return;
    }
    const std::int32_t first = options_.order == Order::ring ? ranks_ - 2 : 0;
    for (std::int32_t step = first; step < ranks_ - 1; ++step) {
      plan_.compute_later(Accumulate{result, result, landing(step, part)});
    }
  }

  [[nodiscard]] View view(TensorId id, std::int32_t slice, std::int32_t part) const {
    return tile_rows(id, plan_.tensor(id), stage_.axis, tile(slice, part));
  }
  [[nodiscard]] View computed(std::int32_t slice, std::int32_t part) const {
    return view(outgoing_->computed, slice, part);
  }
  [[nodiscard]] View own_result(std::int32_t part) const {
    const TensorId id = outgoing_->received;
    if (!stage_.reduce_scatter) return view(id, rank_, part);
    return rows_of(id, plan_.tensor(id), part * part_rows_, part_rows_);
  }
  /// Every step and part lands in rows of its own.
  [[nodiscard]] View landing(std::int32_t step, std::int32_t part) const {
    return rows_of(landing_, plan_.tensor(landing_), (step * options_.parts + part) * part_rows_,
                   part_rows_);
  }

  const Stage& stage_;
  PlanBuilder& plan_;
  const Options& options_;
  std::optional<Outgoing> outgoing_;
  std::int32_t rank_;
  std::int32_t ranks_;
  std::int32_t part_rows_;
  TensorId landing_ = 0;  // only where partials land
};

Accumulation accumulation_of(std::string_view name) {
  if (name == "epilogue") return Accumulation::epilogue;
  return name == "add" ? Accumulation::add : Accumulation::once;
}

void require_pair(std::string_view order, std::string_view accumulate) {
  if (order == "direct" && accumulate == "epilogue") {
    throw UsageError(
        "commfuse: order=direct keeps the received partials, so accumulate is add or once, not "
        "epilogue");
  }
  if (order == "ring" && accumulate == "once") {
    throw UsageError(
        "commfuse: order=ring adds a partial at every hop, so accumulate is epilogue or add, not "
        "once");
  }
}

}  // namespace

Implementation make_commfuse(const Parameters& parameters, const Workload& workload) {
  bool reduces = false;
  bool gathers = false;
  bool exchanges = false;
  for (const Stage& stage : workload.stages) {
    reduces |= stage.reduce_scatter || (stage.all_reduce && !stage.own_slice);
    gathers |= stage.gather.has_value();
    exchanges |= stage.all_to_all.has_value();
  }
  const std::string_view order = value_of(parameters, "order", "ring");
  const std::string_view accumulate =
      value_of(parameters, "accumulate", order == "ring" ? "epilogue" : "once");
  require_pair(order, accumulate);
  Options options;
  options.order = order == "ring" ? Order::ring : Order::direct;
  options.accumulate = accumulation_of(accumulate);
  // A gemm that adds what arrives must have another part to compute meanwhile.
  const bool waits = reduces && options.accumulate == Accumulation::epilogue;
  options.parts = count_of(parameters, "m", waits ? 2 : 1);

  Implementation made;
  made.name = "commfuse";
  if (gathers || reduces) made.name += fmt::format(":order={}", order);
  if (gathers || reduces || exchanges) made.name += fmt::format(":m={}", options.parts);
  if (reduces) made.name += fmt::format(":accumulate={}", accumulate);
  made.lower = [options](const Stage& stage, PlanBuilder& plan) {
    Decomposition(stage, plan, options).lower();
  };
  made.unsupported = [options](const Stage& stage) {
    return unsupported_rows(stage, "m", options.parts);
  };
  return made;
}

}  // namespace commfuse
