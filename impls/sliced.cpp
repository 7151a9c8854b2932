// SPDX-License-Identifier: Apache-2.0
// sliced: every stage in n parts; a part's collective travels while a neighbour part is computed.
//
//   gather (n = 4)     gather   [g0][g1][g2][g3]
//                      compute      [c0][c1][c2][c3]
//   any output         compute  [c0][c1][c2][c3]
//                      scatter      [s0][s1][s2][s3]
//
// axis=tokens: a part is a piece of every peer slice, so that every collective stays well formed.
// Its strips are copied out of contiguous scratch after a gather, an all-to-all or an all-reduce
// (after the latter two when somebody needs them, or last of all); a last phase writes them
// straight into contiguous scratch before the collective; what was there before the stage is copied
// into it. Of what works on the own slice alone (a residual, a norm) a part is a piece of that;
// what is made of all of it and summed over ranks (a norm's gamma) is one part. axis=features: a
// part is a range of output columns of the last gemm, over all rows; the received columns are
// copied into the result. Gathers and earlier phases run whole.
//
// Hides every transfer but the first gather (head) and the last output (tail). Hides
// nothing for n = 1 (bulk) within a stage: whole collectives, each under whatever independent
// compute other stages offer.
#include "impls/sliced.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "impls/implementation.h"

namespace commfuse {
namespace {

CollectiveKind kind_of(const Stage& stage) {
  if (stage.all_to_all) return CollectiveKind::all_to_all;
  return stage.all_reduce ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter;
}

/// One stage being lowered; its scratch.
class Slices {
 public:
  Slices(const Stage& stage, PlanBuilder& plan, const Slicing& slicing)
      : stage_(stage),
        plan_(plan),
        slicing_(slicing),
        outgoing_(outgoing(stage)),
        tokens_(slicing.features ? 1 : slicing.parts),
        features_(slicing.features ? slicing.parts : 1),
        part_rows_(stage.axis.rows / tokens_) {
    if (stage.gather && tokens_ > 1 && plan.ranks() > 1) {
      gathered_ = scratch_like(".gathered", stage.gather->buffer);
    }
    if (!outgoing_ || slicing.parts == 1 || plan.ranks() == 1) return;
    if (slicing.features) {
      const Tensor partial = plan.tensor(outgoing_->computed);
      const std::int32_t cols = partial.cols / features_;
      computed_ =
          plan.scratch(stage.name + ".partials", partial.rows * features_, cols, partial.dtype);
      received_ =
          plan.scratch(stage.name + ".landed", stage.axis.rows * features_, cols, partial.dtype);
      return;
    }
    computed_ = scratch_like(".partials", outgoing_->computed);
    // Parts of a reduce-scatter's result are contiguous; of what has a block per rank, they are
    // not.
    if (!stage.reduce_scatter) received_ = scratch_like(".landed", outgoing_->received);
  }

  void lower() {
    for (std::int32_t i = 0; i < tokens_; ++i) {
      if (i == 0) gather(0);
      if (i + 1 < tokens_) gather(i + 1);
      unpack_gathered(i);
      compute_early_phases(i);
      for (std::int32_t f = 0; f < features_; ++f) {
        compute_last_phase(i, f);
        if (f > 0) unpack_columns(f - 1);
        send(i, f);
      }
      unpack_blocks(i);
    }
    unpack_columns(features_ - 1);
  }

 private:
  void gather(std::int32_t part) {
    if (!stage_.gather || plan_.ranks() == 1) return;
    if (!gathered_) {
      gather_whole(*stage_.gather, stage_.axis, plan_, slicing_.gather, slicing_.via);
      return;
    }
    const TensorId buffer = stage_.gather->buffer;
    const Tile own{.peer = plan_.rank(), .part = part, .parts = tokens_};
    plan_.collective(slicing_.gather, {CollectiveKind::all_gather,
                                       tile_rows(buffer, plan_.tensor(buffer), stage_.axis, own),
                                       part_major(*gathered_, part)});
  }

  void unpack_gathered(std::int32_t part) {
    if (!gathered_) return;
    const TensorId buffer = stage_.gather->buffer;
    plan_.compute(Copy{tile_rows(buffer, plan_.tensor(buffer), stage_.axis, tile(part, 0)),
                       in_strips(part_major(*gathered_, part))});
  }

  void compute_early_phases(std::int32_t part) {
    for (std::size_t i = 0; i + 1 < stage_.phases.size(); ++i) {
      plan_.compute(stage_.phases[i](tile(part, 0), {}));
    }
  }

  void compute_last_phase(std::int32_t part, std::int32_t feature) {
    Target target;
    if (computed_) {
      target.d = slicing_.features ? part_major(*computed_, feature)
                                   : in_strips(part_major(*computed_, part));
    } else if (outgoing_ && plan_.ranks() == 1) {
      target.d = result(part, feature);
    }
    if (!stage_.phases.empty()) {
      plan_.compute(stage_.phases.back()(tile(part, feature), target));
    } else if (target.d) {
      plan_.compute(
          Copy{*target.d, tile_rows(outgoing_->computed, plan_.tensor(outgoing_->computed),
                                    stage_.axis, tile(part, feature))});
    }
  }

  void send(std::int32_t part, std::int32_t feature) {
    if (!outgoing_ || plan_.ranks() == 1) return;
    if (!computed_) {
      send_whole(stage_, plan_, slicing_.scatter, slicing_.via);
      return;
    }
    View receive = result(part, feature);
    if (received_) receive = slicing_.features ? columns(feature) : part_major(*received_, part);
    plan_.collective(
        slicing_.scatter,
        {kind_of(stage_), part_major(*computed_, slicing_.features ? feature : part), receive});
  }

  void unpack_columns(std::int32_t feature) {
    if (received_ && slicing_.features) {
      plan_.compute(Copy{result(0, feature), columns(feature)});
    }
  }
  /// When somebody needs them: other stages have compute to go on with.
  void unpack_blocks(std::int32_t part) {
    if (!received_ || slicing_.features) return;
    const TensorId id = outgoing_->received;
    plan_.compute_later(Copy{tile_rows(id, plan_.tensor(id), stage_.axis, tile(part, 0)),
                             in_strips(part_major(*received_, part))});
  }

  [[nodiscard]] Tile tile(std::int32_t part, std::int32_t feature) const {
    Tile tile = tile_of(stage_, plan_.rank(), part, tokens_);
    tile.feature = feature;
    tile.features = features_;
    return tile;
  }
  TensorId scratch_like(std::string_view suffix, TensorId id) {
    const Tensor like = plan_.tensor(id);
    return plan_.scratch(fmt::format("{}{}", stage_.name, suffix), like.rows, like.cols,
                         like.dtype);
  }
  /// Part `part` of scratch that holds one contiguous run of rows per part.
  [[nodiscard]] View part_major(TensorId scratch, std::int32_t part) const {
    const std::int32_t rows = plan_.ranks() * part_rows_;
    return rows_of(scratch, plan_.tensor(scratch), part * rows, rows);
  }
  /// The same rows as one strip per peer, the packed shape of a tile of tokens.
  [[nodiscard]] View in_strips(View view) const {
    view.rows = part_rows_;
    view.strips = plan_.ranks();
    view.row_step = part_rows_;
    return view;
  }
  [[nodiscard]] View columns(std::int32_t feature) const {
    return rows_of(*received_, plan_.tensor(*received_), feature * part_rows_, part_rows_);
  }
  /// Of a reduce-scatter, or on one rank.
  [[nodiscard]] View result(std::int32_t part, std::int32_t feature) const {
    const TensorId id = outgoing_->received;
    if (stage_.own_slice) return whole(id, plan_.tensor(id));
    View view = rows_of(id, plan_.tensor(id), part * part_rows_, part_rows_);
    view.cols /= features_;
    view.col = feature * view.cols;
    return view;
  }

  const Stage& stage_;
  PlanBuilder& plan_;
  const Slicing& slicing_;
  std::optional<Outgoing> outgoing_;
  std::int32_t tokens_;    // parts of every peer slice
  std::int32_t features_;  // parts of the output columns
  std::int32_t part_rows_;
  std::optional<TensorId> gathered_, computed_, received_;
};

std::string unsupported_features(const Stage& stage, const std::vector<Tensor>& tensors,
                                 std::int32_t parts) {
  if (!stage.reduce_scatter) {
    if (!stage.gather && (stage.own_slice || !outgoing(stage))) return {};
    return fmt::format("axis=features cuts what a reduce-scatter sends, and {} has none",
                       stage.name);
  }
  const Tensor& result = tensors.at(stage.reduce_scatter->result);
  if (result.cols % parts != 0) {
    return fmt::format("needs columns of {} divisible by n ({}), got {}", result.name, parts,
                       result.cols);
  }
  // Scratch holds the parts below each other, each with all rows.
  const Tensor& partial = tensors.at(stage.reduce_scatter->partial);
  if (std::int64_t{partial.rows} * parts <= std::numeric_limits<std::int32_t>::max()) return {};
  return fmt::format("needs rows of {} x n below 2^31, got {} x {}", partial.name, partial.rows,
                     parts);
}

}  // namespace

void lower_sliced(const Stage& stage, PlanBuilder& plan, const Slicing& slicing) {
  if (is_local(stage)) {
    const std::int32_t parts = slicing.features ? 1 : local_parts(stage, slicing.parts);
    Slices(stage, plan, Slicing{.parts = parts}).lower();
    return;
  }
  Slicing used = slicing;
  if (stage.own_slice || (slicing.features && !stage.reduce_scatter)) {
    used.parts = 1;
    used.features = false;
  }
  Slices(stage, plan, used).lower();
}

void gather_whole(const Gather& gather, const Axis& axis, PlanBuilder& plan, Lane lane,
                  CollectiveVia via) {
  if (plan.ranks() == 1) return;
  const Tensor& buffer = plan.tensor(gather.buffer);
  plan.collective(lane, {CollectiveKind::all_gather,
                         rows_of(gather.buffer, buffer, plan.rank() * axis.rows, axis.rows),
                         whole(gather.buffer, buffer), via});
}

void send_whole(const Stage& stage, PlanBuilder& plan, Lane lane, CollectiveVia via) {
  const std::optional<Outgoing> moved = outgoing(stage);
  if (!moved) return;
  const auto [computed, received] = *moved;
  plan.collective(lane, {kind_of(stage), whole(computed, plan.tensor(computed)),
                         whole(received, plan.tensor(received)), via});
}

Implementation make_sliced(const Parameters& parameters, const Workload& workload) {
  const std::int32_t parts = count_of(parameters, "n", 4);
  const std::string_view axis = value_of(parameters, "axis", "tokens");
  const Slicing slicing{.parts = parts, .features = axis == "features"};
  Implementation made;
  made.name = parts == 1 ? "bulk" : fmt::format("sliced:n={}:axis={}", parts, axis);
  made.lower = [slicing](const Stage& stage, PlanBuilder& plan) {
    lower_sliced(stage, plan, slicing);
  };
  made.unsupported = [slicing, tensors = workload.tensors](const Stage& stage) {
    if (slicing.parts == 1) return std::string{};
    return slicing.features ? unsupported_features(stage, tensors, slicing.parts)
                            : unsupported_rows(stage, "n", slicing.parts);
  };
  return made;
}

Implementation make_bulk(const Parameters& /*none*/, const Workload& workload) {
  return make_sliced({{"n", "1"}}, workload);
}

}  // namespace commfuse
