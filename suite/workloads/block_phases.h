// SPDX-License-Identifier: Apache-2.0
// Phases of gradients whose operands lie in blocks of rows, one for each rank, as an all-to-all
// sends and receives them. Parts are rows of every block.
#pragma once

#include "suite/stage.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

/// dx = sum over the blocks j of dy's rows of dy_j w_j, w_j being the j-th share of w's rows: the
/// gradient of what last_linear_for_peers() multiplies. The tile's blocks are added to what is
/// there (PlanBuilder::compute). Pieces of features are columns of dx.
Phase input_gradient_over_pieces(const Axis& axis, const Operand& dx, const Operand& dy,
                                 const Operand& w);
/// dw_j = dy_j^T x for the blocks j of dy's rows, dw_j being the j-th share of dw's rows: parts are
/// added to what is there. Pieces of features are columns of x.
Phase weight_gradient_over_pieces(const Axis& axis, const Operand& dw, const Operand& dy,
                                  const Operand& x);

/// The last phase of a stage whose peer slices are columns of w: block j of dx's rows, which is for
/// rank j, is dy times the j-th share of w's columns. Parts are rows of dy too.
Phase last_input_gradient_for_peers(const Axis& axis, const Operand& dx, const Operand& dy,
                                    const Operand& w);
/// dw_j = dy^T x_j for the blocks j of x's rows, dw_j being the j-th share of dw's columns: the
/// gradient of what linear_over_pieces() multiplies. Parts are added to what is there. Pieces of
/// features are columns of every block.
Phase weight_gradient_of_blocks(const Axis& axis, const Operand& dw, const Operand& dy,
                                const Operand& x);
/// The last phase of a stage: y = x, rounded to y's dtype, on the tile's rows.
Phase last_copy(const Axis& axis, const Operand& y, const Operand& x);

}  // namespace commfuse
