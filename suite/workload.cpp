// SPDX-License-Identifier: Apache-2.0
#include "suite/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "suite/error.h"
#include "suite/workloads/dp.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/ulysses.h"

namespace commfuse {
namespace {

constexpr std::array kWorkloads{
    WorkloadEntry{"tpsp/ag_gemm", "all-gather of tokens, then the up-projection", "forward",
                  &tpsp_mlp_unsupported, &tpsp_ag_gemm},
    WorkloadEntry{"tpsp/ag_gemm", "its gradients: dX, reduce-scatter; all-gather of tokens, dU",
                  "backward", &tpsp_mlp_unsupported, &tpsp_ag_gemm_backward},
    WorkloadEntry{"tpsp/gemm_rs", "the down-projection, then reduce-scatter of tokens", "forward",
                  &tpsp_mlp_unsupported, &tpsp_gemm_rs},
    WorkloadEntry{"tpsp/gemm_rs", "its gradients: all-gather of tokens, dA and dD", "backward",
                  &tpsp_mlp_unsupported, &tpsp_gemm_rs_backward},
    WorkloadEntry{"tpsp/mlp", "all-gather, whole MLP, reduce-scatter", "forward",
                  &tpsp_mlp_unsupported, &tpsp_mlp},
    WorkloadEntry{"tpsp/mlp", "its gradients: all-gather, dX, reduce-scatter; all-gather, dD, dU",
                  "backward", &tpsp_mlp_unsupported, &tpsp_mlp_backward},
    WorkloadEntry{"tpsp/mlp_rs", "whole MLP on a whole input, reduce-scatter", "forward",
                  &tpsp_mlp_unsupported, &tpsp_mlp_rs},
    WorkloadEntry{"tpsp/attention", "query-split attention and out-projection, reduce-scatter",
                  "forward", &tpsp_attention_unsupported, &tpsp_attention},
    WorkloadEntry{"tpsp/attention", "its gradients: all-gather of tokens, dO, dQ, dK, dV, dWo",
                  "backward", &tpsp_attention_backward_unsupported, &tpsp_attention_backward},
    WorkloadEntry{"tpsp/qkv", "all-gather of tokens, then the fused QKV projection", "forward",
                  &tpsp_qkv_unsupported, &tpsp_qkv},
    WorkloadEntry{"tpsp/qkv", "its gradients: dX, reduce-scatter; all-gather of tokens, dW",
                  "backward", &tpsp_qkv_unsupported, &tpsp_qkv_backward},
    WorkloadEntry{"tpsp/layer", "a whole layer: norm, QKV, attention, norm, MLP, two residuals",
                  "forward", &tpsp_layer_unsupported, &tpsp_layer},
    WorkloadEntry{"tpsp/layer",
                  "its gradients: the MLP's and attention's, norms, all weights, gammas",
                  "backward", &tpsp_layer_unsupported, &tpsp_layer_backward},
    WorkloadEntry{"ulysses/qkv", "K, V and Q projections, each followed by an all-to-all",
                  "forward", &ulysses_unsupported, &ulysses_qkv},
    WorkloadEntry{"ulysses/qkv",
                  "its gradients: dQ, dK and dV, all-to-all; dX and those of weights", "backward",
                  &ulysses_backward_unsupported, &ulysses_qkv_backward},
    WorkloadEntry{"ulysses/attention", "attention of the own heads, then all-to-all", "forward",
                  &ulysses_unsupported, &ulysses_attention},
    WorkloadEntry{"ulysses/attention", "its gradients: dO, all-to-all; dQ, dK and dV, all-to-all",
                  "backward", &ulysses_backward_unsupported, &ulysses_attention_backward},
    WorkloadEntry{"ulysses/block", "QKV, all-to-all, attention, all-to-all, out-projection",
                  "forward", &ulysses_unsupported, &ulysses_block},
    WorkloadEntry{"ulysses/block", "its gradients: dO, all-to-all, dWo; those of attention and QKV",
                  "backward", &ulysses_backward_unsupported, &ulysses_block_backward},
    WorkloadEntry{"ulysses/layer", "a whole layer: norm, block, norm, MLP, two residuals",
                  "forward", &ulysses_layer_unsupported, &ulysses_layer},
    WorkloadEntry{"ulysses/layer",
                  "its gradients: the MLP's, norms, dO, attention's, QKV's, all weights, gammas",
                  "backward", &ulysses_layer_backward_unsupported, &ulysses_layer_backward},
    WorkloadEntry{"dp/zero3", "forward of layers of an up- and a down-projection, weights gathered",
                  "forward", &dp_zero3_unsupported, &dp_zero3},
    WorkloadEntry{"dp/zero3",
                  "its gradients: weights gathered again as early as links allow, reduce-scatter",
                  "backward", &dp_zero3_unsupported, &dp_zero3_backward, true},
    WorkloadEntry{"dp/zero2", "backward of such layers, reduce-scatter of each weight gradient",
                  "backward", &dp_zero2_unsupported, &dp_zero2, true},
    WorkloadEntry{"dp/zero1", "the same, then Adam on the own share of weights, all-gather of them",
                  "backward", &dp_zero1_unsupported, &dp_zero1, true},
    WorkloadEntry{"dp/ddp", "backward of such layers, all-reduce of each weight gradient",
                  "backward", &dp_ddp_unsupported, &dp_ddp, true},
};

/// Of the lines with its name, this one is first.
bool is_usual_pass(const WorkloadEntry& entry) {
  return &entry == &*std::ranges::find(kWorkloads, entry.name, &WorkloadEntry::name);
}

/// Data that no workload starts from; far from the numbers of global tensors.
constexpr std::uint32_t kFirstStandIn = 1U << 31;

/// '*' stands for any run of characters, '?' for one.
bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*') {
    return matches(pattern.substr(1), name) || (!name.empty() && matches(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern.front() == '?' || pattern.front() == name.front()) &&
         matches(pattern.substr(1), name.substr(1));
}

View whole_of(const Workload& workload, TensorId id) { return whole(id, workload.tensors[id]); }

bool gathered(const Workload& workload, TensorId id) {
  return std::ranges::any_of(workload.stages, [id](const Stage& stage) {
    return stage.gather && stage.gather->buffer == id;
  });
}

/// What `rank` holds of the buffers that stages gather, where its inputs fill them.
std::vector<Fill> gather_slices(const Workload& workload, std::int32_t rank) {
  std::vector<Fill> fills = workload.inputs(rank);
  std::erase_if(fills, [&](const Fill& fill) { return !gathered(workload, fill.view.tensor); });
  return fills;
}

bool filled(const Workload& workload, TensorId buffer) {
  return std::ranges::any_of(workload.inputs(0),
                             [buffer](const Fill& fill) { return fill.view.tensor == buffer; });
}

/// The slice of `owner` in a gather buffer that no input fills.
Fill stand_in_slice(const Workload& workload, const Stage& stage, std::int32_t owner) {
  const TensorId buffer = stage.gather->buffer;
  const std::int32_t first = owner * stage.axis.rows;
  return piece_of(stand_in_data(workload, buffer, owner),
                  rows_of(buffer, workload.tensors[buffer], first, stage.axis.rows), first, 0);
}

bool reads_tensor(const Stage& stage, TensorId id) {
  for (const Phase& phase : stage.phases) {
    for (const Compute& op : phase(tile_of(stage, 0), Target{})) {
      const std::vector<View> views = reads(op);
      if (std::ranges::find(views, id, &View::tensor) != views.end()) return true;
    }
  }
  return false;
}

/// Whether a stage computes the own slice of a gather buffer.
bool computed(const Workload& workload, TensorId buffer) {
  return std::ranges::any_of(workload.stages, [buffer](const Stage& stage) {
    return std::ranges::any_of(stage.phases, [&](const Phase& phase) {
      return std::ranges::any_of(phase(tile_of(stage, 0), Target{}), [buffer](const Compute& op) {
        const std::vector<View> written = writes(op);
        return std::ranges::find(written, buffer, &View::tensor) != written.end();
      });
    });
  });
}

/// The outputs with everything that was reduced or received replaced by what was computed to be
/// sent for it: not where a stage sends an input.
std::vector<View> unmoved_outputs(const Workload& workload) {
  std::vector<View> views = workload.outputs;
  for (const Stage& stage : workload.stages) {
    const std::optional<Outgoing> moved = outgoing(stage);
    if (!moved) continue;
    std::erase_if(views, [&](const View& view) { return view.tensor == moved->received; });
    if (!filled(workload, moved->computed)) views.push_back(whole_of(workload, moved->computed));
  }
  return views;
}

std::vector<View> moved_views(const Workload& workload) {
  std::vector<View> views;
  for (const Stage& stage : workload.stages) {
    if (stage.gather) views.push_back(whole_of(workload, stage.gather->buffer));
    if (const auto moved = outgoing(stage)) views.push_back(whole_of(workload, moved->received));
  }
  return views;
}

/// Inputs, and what would have come from peers.
std::vector<Fill> unmoved_data(const Workload& workload, std::int32_t rank) {
  std::vector<Fill> fills = workload.inputs(rank);
  for (std::int32_t peer = 0; peer < workload.ranks; ++peer) {
    if (peer == rank) continue;
    for (const Fill& fill : gather_slices(workload, peer)) fills.push_back(fill);
  }
  for (auto stage = workload.stages.begin(); stage != workload.stages.end(); ++stage) {
    if (stage->gather && !filled(workload, stage->gather->buffer)) {
      const bool own = !computed(workload, stage->gather->buffer);
      for (std::int32_t owner = 0; owner < workload.ranks; ++owner) {
        if (owner == rank && !own) continue;
        fills.push_back(stand_in_slice(workload, *stage, owner));
      }
    }
    const std::optional<Outgoing> moved = outgoing(*stage);
    if (!moved) continue;
    const auto needs_it = [&](const Stage& later) { return reads_tensor(later, moved->received); };
    if (std::any_of(stage + 1, workload.stages.end(), needs_it)) {
      fills.push_back(stand_in_data(workload, moved->received, rank));
    }
  }
  return fills;
}

/// What moves: own gather slices, and what stages would have computed.
std::vector<Fill> moved_data(const Workload& workload, std::int32_t rank) {
  std::vector<Fill> fills = gather_slices(workload, rank);
  for (const Stage& stage : workload.stages) {
    if (stage.gather && !filled(workload, stage.gather->buffer)) {
      fills.push_back(stand_in_slice(workload, stage, rank));
    }
    if (const auto moved = outgoing(stage)) {
      fills.push_back(stand_in_data(workload, moved->computed, rank));
    }
  }
  return fills;
}

}  // namespace

std::span<const WorkloadEntry> workloads() { return kWorkloads; }

bool makes_gradients(const WorkloadEntry& entry) { return entry.pass == "backward"; }

std::string unsupported(const WorkloadEntry& entry, const Shape& shape, std::int32_t ranks) {
  const std::string_view gradient = name_of(shape.gradient);
  if (makes_gradients(entry) && shape.gradient != DType::f32) {
    // No matrix unit multiplies other pairs.
    if (shape.gradient != shape.dtype) {
      const bool narrow = is_narrow(shape.dtype);
      return fmt::format("needs gradients in fp32{} as its dtype is {}, got {}",
                         narrow ? fmt::format(" or {},", name_of(shape.dtype)) : ",",
                         name_of(shape.dtype), gradient);
    }
    if (!entry.reduces_gradients) {
      return fmt::format("adds tiles up in its gradients, so needs them in fp32, got {}", gradient);
    }
  }
  return entry.unsupported(shape, ranks);
}

std::string selector_of(const WorkloadEntry& entry) {
  return is_usual_pass(entry) ? std::string(entry.name)
                              : fmt::format("{}:{}", entry.name, entry.pass);
}

std::vector<const WorkloadEntry*> find_workloads(std::string_view pattern) {
  const std::size_t colon = pattern.find(':');
  const std::string_view name = pattern.substr(0, colon);
  std::vector<const WorkloadEntry*> found;
  for (const WorkloadEntry& entry : kWorkloads) {
    const bool in_pass = colon == std::string_view::npos ? is_usual_pass(entry)
                                                         : entry.pass == pattern.substr(colon + 1);
    if (in_pass && matches(name, entry.name)) found.push_back(&entry);
  }
  if (!found.empty()) return found;
  const auto named = [&](const WorkloadEntry& entry) { return matches(name, entry.name); };
  if (std::ranges::any_of(kWorkloads, named)) {
    std::set<std::string_view> passes;
    for (const WorkloadEntry& entry : kWorkloads) {
      if (named(entry)) passes.insert(entry.pass);
    }
    throw UsageError(fmt::format("workload '{}' has no pass '{}'; valid: {}", name,
                                 pattern.substr(colon + 1), fmt::join(passes, ", ")));
  }
  std::vector<std::string> valid;
  for (const WorkloadEntry& entry : kWorkloads) valid.push_back(selector_of(entry));
  throw UsageError(
      fmt::format("unknown workload '{}'; valid: {}", pattern, fmt::join(valid, ", ")));
}

std::vector<View> required_outputs(const Workload& workload, Portion portion) {
  switch (portion) {
    case Portion::compute_only:
      return unmoved_outputs(workload);
    case Portion::comm_only:
      return moved_views(workload);
    case Portion::schedule:
      break;
  }
  return workload.outputs;
}

std::vector<Fill> initial_data(const Workload& workload, std::int32_t rank, Portion portion) {
  switch (portion) {
    case Portion::compute_only:
      return unmoved_data(workload, rank);
    case Portion::comm_only:
      return moved_data(workload, rank);
    case Portion::schedule:
      break;
  }
  return workload.inputs(rank);
}

Fill stand_in_data(TensorId id, const Tensor& tensor, std::int32_t ranks, std::int32_t rank) {
  const std::uint32_t first = kFirstStandIn + id * static_cast<std::uint32_t>(ranks);
  return {.view = whole(id, tensor),
          .content = Content::activation,
          .global = first + static_cast<std::uint32_t>(rank),
          .width = tensor.cols};
}

Fill stand_in_data(const Workload& workload, TensorId id, std::int32_t rank) {
  return stand_in_data(id, workload.tensors[id], workload.ranks, rank);
}

}  // namespace commfuse
