// SPDX-License-Identifier: Apache-2.0
#include "suite/workloads/gradient_phases.h"

namespace commfuse {

Phase attention_gradient(const Axis& axis, const Attention& heads,
                         const HeadGradientOperands& operands) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    return {AttentionGradient{.dq = target.d.value_or(rows_in(operands.dq, axis, tile)),
                              .dk = operands.dk.all(),
                              .dv = operands.dv.all(),
                              .d_o = rows_in(operands.d_o, axis, tile),
                              .q = rows_in(operands.q, axis, tile),
                              .k = operands.k.all(),
                              .v = operands.v.all(),
                              .heads = heads.heads,
                              .kv_heads = heads.kv_heads,
                              .head_dim = heads.head_dim,
                              .mask = heads.mask,
                              .adds = true}};
  };
}

Phase rounded(const Axis& axis, const Operand& y, const Operand& x) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    return {Copy{.d = target.d.value_or(rows_in(y, axis, tile)), .s = rows_in(x, axis, tile)}};
  };
}

Phase norm_gradient(const Axis& axis, const Operand& dx, const Operand& dy, const Operand& x,
                    const Operand& gamma) {
  return [=](const Tile& tile, const Target&) -> std::vector<Compute> {
    return {NormGradient{.dx = rows_in(dx, axis, tile),
                         .dy = rows_in(dy, axis, tile),
                         .x = rows_in(x, axis, tile),
                         .gamma = gamma.all()}};
  };
}

Phase last_gamma_gradient(const Axis& axis, const Operand& d, const Operand& dy, const Operand& x) {
  return [=](const Tile& tile, const Target& target) -> std::vector<Compute> {
    return {GammaGradient{.d = target.d.value_or(d.all()),
                          .dy = rows_in(dy, axis, tile),
                          .x = rows_in(x, axis, tile)}};
  };
}

Stage through_norm(std::string name, const Axis& axis, const Operand& dx, const Operand& dn,
                   const Operand& x, const Operand& gamma, const Operand& beside) {
  return {.name = std::move(name),
          .axis = axis,
          .phases = {norm_gradient(axis, dx, dn, x, gamma), residual(axis, dx, dx, beside)},
          .own_slice = true};
}

}  // namespace commfuse
