// SPDX-License-Identifier: Apache-2.0
// A workload: tensors, stages, inputs and FLOPs of one rank of a group. It says what is computed,
// never how.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suite/answers.h"
#include "suite/data.h"
#include "suite/flops.h"
#include "suite/portion.h"
#include "suite/shape.h"
#include "suite/stage.h"

namespace commfuse {

struct Workload {
  std::string name;
  Shape shape;
  std::int32_t ranks = 1;
  std::vector<Tensor> tensors;    // ids are indices; the same on every rank
  std::vector<TensorId> weights;  // constant over iterations: an executor may prepare them once
  std::vector<Stage> stages;
  std::vector<View> outputs;  // what every rank must have written when all stages are done
  /// What rank r holds before the first stage. Regions not listed are undefined (and poisoned in
  /// checks).
  std::function<std::vector<Fill>(std::int32_t rank)> inputs;
  /// The results in float64, for the oracle; written apart from the stages. One for the tensor
  /// behind each of required_outputs() of the portion, which is schedule or compute_only.
  std::function<std::vector<Answers>(const Source& source, Portion portion)> answers;
  std::int64_t model_flops = 0;     // per rank, one pass over all stages
  std::int64_t hardware_flops = 0;  // the same as executed, with what is computed a second time
  /// Set where the stages are a whole transformer layer of the shape: the rows that have an mfu.
  /// Then ranks * model_flops is what layer_flops() counts as exact.
  std::optional<Pass> layer = {};
};

/// One line of the table in workload.cpp.
struct WorkloadEntry {
  std::string_view name;         // "tpsp/ag_gemm"
  std::string_view description;  // one line for --list
  std::string_view pass;         // "forward", or "backward" where gradients are computed
  /// Why the shape cannot be cut for so many ranks: "needs heads divisible by ranks (4), got 7";
  /// empty if it can.
  std::string (*unsupported)(const Shape&, std::int32_t ranks);
  Workload (*build)(const Shape&, std::int32_t ranks);  // requires unsupported() to be empty
  /// Weight gradients are summed over the ranks, so that their dtype and bucket matter.
  bool reduces_gradients = false;
};
/// Whether the pass makes weight gradients, whose dtype a shape gives.
bool makes_gradients(const WorkloadEntry& entry);
/// Why not: what holds of every workload, then what holds of this one; empty if it can be built.
std::string unsupported(const WorkloadEntry& entry, const Shape& shape, std::int32_t ranks);

/// Passes of one workload follow each other, the usual one first.
std::span<const WorkloadEntry> workloads();
/// What finds this line alone: its name, with ":backward" where the name means another pass.
std::string selector_of(const WorkloadEntry& entry);
/// Entries whose name matches a name or a glob ("tpsp/*", "*"), in their usual pass, or in the one
/// that follows a colon ("tpsp/mlp:backward"). Throws UsageError if none does, listing the valid
/// names or saying that a name has no such pass.
std::vector<const WorkloadEntry*> find_workloads(std::string_view pattern);

/// Views that a plan must write: `outputs` for a schedule; compute_only leaves what each stage
/// sends or reduces, unless it is an input, instead of what it receives; comm_only the gathered,
/// received and reduced buffers.
std::vector<View> required_outputs(const Workload& workload, Portion portion);
/// What `rank` must hold before such a plan starts: `inputs` for a schedule. For compute_only also
/// the gather slices of all peers, and stand-in data in what nothing moves there but a stage reads
/// (the own slice of a gather buffer is computed where a stage does so);
/// for comm_only the own gather slices, and stand-in data in what stages send or reduce.
std::vector<Fill> initial_data(const Workload& workload, std::int32_t rank, Portion portion);

/// What `rank` holds of a tensor where nothing computes or moves it: dense, and different on every
/// rank. In a gather buffer that no input fills, slice j is that of rank j.
Fill stand_in_data(TensorId id, const Tensor& tensor, std::int32_t ranks, std::int32_t rank);
Fill stand_in_data(const Workload& workload, TensorId id, std::int32_t rank);

}  // namespace commfuse
