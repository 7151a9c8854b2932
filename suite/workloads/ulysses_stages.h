// SPDX-License-Identifier: Apache-2.0
// The stages that the ulysses workloads are made of, and what the oracle says of each. compute_only
// exchanges nothing: there a stage works on stand-in data (workload.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "suite/oracle_attention.h"
#include "suite/stage.h"
#include "suite/workloads/projected_heads.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// What an all-to-all sends and what it receives.
struct Exchanged {
  Operand send, receive;
};
Exchanged exchanged(WorkloadBuilder& builder, std::string_view name, const Axis& axis,
                    std::int32_t cols);

/// The weights, and what their products with the own tokens are exchanged by.
struct Projections {
  Operand wk, wv, wq;
  Exchanged k, v, q;
};
/// The stages k, v and q; x has the own tokens.
Projections add_projections(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                            const Operand& x);
std::vector<Fill> weight_inputs(const ProjectionWeights& weights, const Projections& operands);
/// Exact where x is.
std::vector<Answers> projection_answers(const Shape& shape, const Projections& operands,
                                        const ProjectionWeights& weights, const TokenRows& x,
                                        bool exact, std::int32_t ranks, const Source& source);

/// Of the own heads, every token; o goes back to the tokens' ranks.
struct AttentionOperands {
  Operand q, k, v;
  Exchanged o;
};
void add_attention(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                   const AttentionOperands& operands, std::optional<Pieces> pieces);
/// `inputs` are those of all heads.
Answers attention_answer(const Shape& shape, TensorId sent, std::int32_t ranks, bool exact,
                         AttentionInputs inputs);
Answers stand_in_attention(const Shape& shape, const AttentionOperands& operands,
                           std::int32_t ranks, const Source& source);

/// Y of the own tokens; o as received. Weights are whole.
void add_out_projection(WorkloadBuilder& builder, const Axis& axis, const Operand& y,
                        const Operand& o, const Operand& weight);
Answers out_answer(const Shape& shape, TensorId y, const Axis& axis, const Source& source);
Answers stand_in_out(const Shape& shape, const Fill& weight, TensorId y, const Operand& o,
                     const Axis& axis, const Source& source);

}  // namespace commfuse
