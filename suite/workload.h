// SPDX-License-Identifier: Apache-2.0
// A workload: tensors, stages, inputs and FLOPs of one rank of a group. It says what is computed,
// never how.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suite/answers.h"
#include "suite/data.h"
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
  /// The results in float64, for the oracle; written apart from the stages.
  std::function<Answers(const Source& source)> answers;
  std::int64_t model_flops = 0;  // per rank, one pass over all stages
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
};

std::span<const WorkloadEntry> workloads();
/// Entries whose name matches a name or a glob ("tpsp/*", "*"); throws UsageError listing the valid
/// names if none does.
std::vector<const WorkloadEntry*> find_workloads(std::string_view pattern);

/// What of a workload a plan does: all of it, or one half of it as a bound.
enum class Portion : std::uint8_t { schedule, compute_only, comm_only };

/// Views that a plan must write: `outputs` for a schedule; compute_only leaves the partial instead
/// of the reduced result; comm_only the gathered buffers and the reduced results.
std::vector<View> required_outputs(const Workload& workload, Portion portion);
/// What `rank` must hold before such a plan starts: `inputs` for a schedule; for compute_only also
/// the gather buffers of all peers; for comm_only the own gather slices and data in the partial
/// buffers.
std::vector<Fill> initial_data(const Workload& workload, std::int32_t rank, Portion portion);
/// What `rank` puts into a partial buffer where nothing computes it (comm_only): dense, and
/// different on every rank.
Fill partial_data(const Workload& workload, TensorId partial, std::int32_t rank);

}  // namespace commfuse
