// SPDX-License-Identifier: Apache-2.0
// Backward of a whole MLP as Megatron-LM has it: the gradient of the input first, so that its
// reduce-scatter travels under the gradients of the weights; X, which sequence parallelism did not
// keep whole, is gathered again.
#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp.h"
#include "suite/workloads/tpsp_backward_answers.h"
#include "suite/workloads/tpsp_inputs.h"
#include "suite/workloads/tpsp_mlp_gradients.h"

namespace commfuse {

Workload tpsp_mlp_backward(const Shape& shape, std::int32_t ranks) {
  WorkloadBuilder builder("tpsp/mlp", shape, ranks);
  const Axis axis = token_axis(shape, ranks);
  const Operand dy = builder.tensor("dY", shape.tokens, shape.hidden);
  const Operand x = builder.tensor("X", shape.tokens, shape.hidden);
  const Operand dx = builder.tensor("dX", axis.rows, shape.hidden);
  const MlpGradients mlp = add_mlp_gradients(builder, shape, shape.tokens, ranks, "mlp_partial");
  builder.inputs([=](std::int32_t rank) {
    std::vector<Fill> fills = mlp_gradient_inputs(shape, mlp, features_of(mlp, rank));
    fills.push_back(own_tokens(tpsp_input(shape, TpspInput::x), dy.id, axis, rank));
    fills.push_back(own_tokens(tpsp_transpose(shape, TpspInput::xt), x.id, axis, rank));
    return fills;
  });
  builder.answers([=](const Source& source, Portion) {
    return std::vector{mlp_input_gradient(mlp.partial.id, shape, ranks, source),
                       gradient_answer(mlp.dd.id, tpsp_transpose(shape, TpspInput::x), 0,
                                       sparse_a(shape, ranks), source),
                       mlp_up_gradient(mlp.du.id, shape, cut_by_features(shape, ranks), source)};
  });
  builder.stage(mlp_dgrad(shape, axis, mlp, dy, dx));
  builder.stage(mlp_wgrad_down(axis, mlp, dy));
  builder.stage(mlp_wgrad_up(axis, mlp, x, Gather{x.id}));
  for (const Operand& made : {dx, mlp.dd, mlp.du}) builder.output(made);
  return builder.take();
}

}  // namespace commfuse
