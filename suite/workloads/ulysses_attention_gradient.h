// SPDX-License-Identifier: Apache-2.0
// The backward pass of attention under ulysses, of the own heads: what it is made of, and what the
// oracle says of it. dQ goes back to the tokens piece by piece; dK and dV are sums over all query
// rows, in fp32, and follow when those are done.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "suite/oracle_attention.h"
#include "suite/stage.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/ulysses_backward_answers.h"
#include "suite/workloads/ulysses_backward_stages.h"

namespace commfuse {

/// Saved Q, K and V, and dO as received: every token of the own heads.
struct ExchangedGradients {
  Operand q, k, v, d_o;
  Exchanged dq, dk, dv;
  Operand dk_sum, dv_sum;  // fp32: what is sent, where the shape's dtype is that
};
ExchangedGradients attention_gradient_operands(WorkloadBuilder& builder, const Shape& shape,
                                               const Axis& axis, const Operand& d_o);
/// The stages attention, dk and dv.
void add_attention_gradient(WorkloadBuilder& builder, const Shape& shape, const Axis& axis,
                            const ExchangedGradients& operands);
/// Saved queries, keys or values of all heads: tpsp_input() or saved_heads().
using SavedHeads = Fill (*)(const Shape& shape, TpspInput input);
/// Q, K and V.
std::vector<Fill> attention_gradient_inputs(const Shape& shape, const ExchangedGradients& operands,
                                            SavedHeads saved, std::int32_t rank);

/// dO of some query heads, for some tokens of the sequence.
using OutputGradients = std::function<Rows(Range heads, std::span<const std::int32_t> tokens)>;

/// The global input dO.
OutputGradients given_output_gradients(const Shape& shape, const Source& source);
/// What a rank has received of dO for its heads where nothing is exchanged.
OutputGradients stand_in_output_gradients(const Operand& d_o, const Shape& shape,
                                          std::int32_t ranks, const Source& source);

/// dQ, dK and dV of the saved Q, K and V.
SentGradients attended_gradients(const Shape& shape, const Axis& axis, const AttentionInputs& saved,
                                 const OutputGradients& d_o);
/// Of them as they are sent.
std::vector<Answers> attention_gradient_answers(const ExchangedGradients& operands,
                                                const Axis& axis, const SentGradients& gradients);

}  // namespace commfuse
