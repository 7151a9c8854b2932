// SPDX-License-Identifier: Apache-2.0
// The optimizer of data parallelism: every rank steps its own share of each bucket of weights (Adam
// of compute.h) with the gradients that a reduce-scatter left it, and the updated weights are
// gathered. What a step replaces and what it gives lie in tensors of their own, so that every
// iteration does the same; the weights that the backward pass multiplies with are others, drawn on
// their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "suite/answers.h"
#include "suite/workload.h"
#include "suite/workloads/dp_buckets.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// Of one bucket. Shares of a rank are fp32.
struct OptimizerTensors {
  Operand w, m, v;              // shares: master weights and moments
  Operand new_w, new_m, new_v;  // new_w only where weights are narrow
  Operand weights;              // all of the bucket in the shape's dtype, gathered
  Operand gradient;             // the share that was reduced
};

OptimizerTensors add_optimizer(WorkloadBuilder& builder, const Bucket& bucket,
                               const Operand& gradient, const Shape& shape, std::int32_t ranks);

/// The step, then the gather, and what they give as outputs.
void add_optimizer_stages(WorkloadBuilder& builder, const Bucket& bucket,
                          const OptimizerTensors& tensors, std::int32_t ranks);

/// What `rank` holds of bucket number `number`.
std::vector<Fill> optimizer_inputs(const OptimizerTensors& tensors, std::size_t number,
                                   std::int32_t ranks, std::int32_t rank);

/// `reduced` has answers for the partial gradients of the bucket; where nothing moves a step takes
/// what stands in for the reduced ones.
std::vector<Answers> optimizer_answers(const OptimizerTensors& tensors, std::size_t number,
                                       std::int32_t ranks, const Answers& reduced,
                                       const Source& source, Portion portion);

}  // namespace commfuse
