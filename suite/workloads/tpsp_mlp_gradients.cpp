// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/tpsp_mlp_gradients.h"

#include <utility>

#include "suite/workloads/phases.h"
#include "suite/workloads/tpsp_inputs.h"

namespace commfuse {

MlpGradients add_mlp_gradients(WorkloadBuilder& builder, const Shape& shape, std::int32_t tokens,
                               std::int32_t ranks, std::string partial) {
  const std::int32_t features = shape.ffn / ranks;
  const std::int32_t stacked = (shape.activation == Activation::swiglu ? 2 : 1) * features;
  MlpGradients made;
  made.a = builder.tensor("A", tokens, features);
  made.h = builder.tensor("H", tokens, stacked);
  made.u = builder.weight("U", stacked, shape.hidden);
  made.d = builder.weight("D", shape.hidden, features);
  made.da = builder.tensor("dA", tokens, features);
  made.dh = builder.tensor("dH", tokens, stacked);
  made.partial = builder.tensor(std::move(partial), tokens, shape.hidden);
  made.dd = builder.gradient("dD", made.d);
  made.du = builder.gradient("dU", made.u);
  return made;
}

MlpPlace features_of(const MlpGradients& mlp, std::int32_t rank) {
  return {.token = 0, .feature = rank * mlp.a.tensor.cols};
}

std::vector<Fill> mlp_gradient_inputs(const Shape& shape, const MlpGradients& mlp,
                                      const MlpPlace& place) {
  const std::int32_t features = mlp.a.tensor.cols;
  const auto saved = [&](TpspInput input, std::int32_t col) {
    View view = mlp.h.all();
    view.col = col;
    view.cols = features;
    return piece_of(tpsp_input(shape, input), view, place.token, place.feature);
  };
  const auto up = [&](TpspInput transposed, std::int32_t row) {
    return piece_of(tpsp_transpose(shape, transposed), mlp.u.rows(row, features), place.feature, 0);
  };
  std::vector<Fill> fills{
      piece_of(tpsp_transpose(shape, TpspInput::at), mlp.a.all(), place.token, place.feature),
      piece_of(tpsp_transpose(shape, TpspInput::up), mlp.d.all(), 0, place.feature)};
  if (shape.activation != Activation::swiglu) {
    fills.insert(fills.end(), {saved(TpspInput::h, 0), up(TpspInput::down, 0)});
  } else {
    fills.insert(fills.end(), {saved(TpspInput::h_gate, 0), saved(TpspInput::h, features),
                               up(TpspInput::gate_down, 0), up(TpspInput::down, features)});
  }
  return fills;
}

std::vector<Phase> mlp_dgrad_phases(const Shape& shape, const Axis& axis, const MlpGradients& mlp,
                                    const Operand& dy) {
  return {input_gradient(axis, mlp.da, dy, mlp.d),
          activation_gradient(axis, shape.activation, mlp.dh, mlp.da, mlp.h),
          last_input_gradient(axis, mlp.partial, mlp.dh, mlp.u)};
}

Stage mlp_dgrad(const Shape& shape, const Axis& axis, const MlpGradients& mlp, const Operand& dy,
                const Operand& dx) {
  return {.name = "mlp_dgrad",
          .axis = axis,
          .phases = mlp_dgrad_phases(shape, axis, mlp, dy),
          .gather = Gather{dy.id},
          .reduce_scatter = ReduceScatter{mlp.partial.id, dx.id}};
}

Stage mlp_wgrad_down(const Axis& axis, const MlpGradients& mlp, const Operand& dy) {
  return {.name = "wgrad_down",
          .axis = axis,
          .phases = {weight_gradient_over_rows(axis, mlp.dd, dy, mlp.a)}};
}

Stage mlp_wgrad_up(const Axis& axis, const MlpGradients& mlp, const Operand& x,
                   std::optional<Gather> gather) {
  return {.name = "wgrad_up",
          .axis = axis,
          .phases = {weight_gradient_over_rows(axis, mlp.du, mlp.dh, x)},
          .gather = gather};
}

}  // namespace commfuse
