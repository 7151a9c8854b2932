// SPDX-License-Identifier: Apache-2.0
// Phases of backward passes beside those of linear layers (phases.h): of attention and of norms.
// Operands hold the rows of all slices of the axis, or of the own slice alone.
#pragma once

#include <string>

#include "suite/workloads/phases.h"

namespace commfuse {

/// What attention's gradient reads and writes; dk and dv may be wider than the rest.
struct HeadGradientOperands {
  Operand dq, dk, dv, d_o, q, k, v;
};
/// The tile's rows of dq from those of d_o and q; dk and dv are whole and take what each tile adds
/// (PlanBuilder::compute). `heads` names heads, kv_heads, head_dim and mask. As a last phase it
/// honours the target, for dq.
Phase attention_gradient(const Axis& axis, const Attention& heads,
                         const HeadGradientOperands& operands);
/// y = x rounded to y's dtype, on the tile's rows; honours the target as a last phase.
Phase rounded(const Axis& axis, const Operand& y, const Operand& x);
/// dx from dy on the tile's rows, for y = x / rms(x) * gamma.
Phase norm_gradient(const Axis& axis, const Operand& dx, const Operand& dy, const Operand& x,
                    const Operand& gamma);
/// The last phase of a stage of the own slice: the sum over the tile's rows of dy x / rms(x), one
/// row.
Phase last_gamma_gradient(const Axis& axis, const Operand& d, const Operand& dy, const Operand& x);
/// A stage of the own slice: dx = what reaches x through the norm from dn, and what reaches it
/// beside the norm.
Stage through_norm(std::string name, const Axis& axis, const Operand& dx, const Operand& dn,
                   const Operand& x, const Operand& gamma, const Operand& beside);

}  // namespace commfuse
