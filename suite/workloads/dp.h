// SPDX-License-Identifier: Apache-2.0
// Data parallelism of layers of two linear maps (dp_layers.h): every rank has tokens of its own,
// and a shape's tokens are those of one rank. What the ranks share are weights and their gradients,
// cut by rows. Each builder requires its constraint to be empty.
#pragma once

#include <cstdint>
#include <string>

#include "suite/workload.h"

namespace commfuse {

/// Hidden and ffn are cut over ranks.
std::string dp_zero3_unsupported(const Shape& shape, std::int32_t ranks);
std::string dp_zero1_unsupported(const Shape& shape, std::int32_t ranks);
std::string dp_zero2_unsupported(const Shape& shape, std::int32_t ranks);
std::string dp_ddp_unsupported(const Shape& shape, std::int32_t ranks);

/// Parameters cut over ranks, as ZeRO-3 and FSDP have them. For each linear map: gather W; Y = X
/// W^T, which is the X of the next.
Workload dp_zero3(const Shape& shape, std::int32_t ranks);
/// Its backward pass, parameters gathered again. For each linear map, backwards: gather W (not of
/// the first); dW = dY^T X, reduce-scatter of dW; dX = dY W.
Workload dp_zero3_backward(const Shape& shape, std::int32_t ranks);
/// Gradients cut over ranks, as ZeRO-2 and ZeRO-3 have them. For each linear map, backwards: dX =
/// dY W, which is the dY of the map before (none of the first); dW = dY^T X; reduce-scatter of dW.
Workload dp_zero2(const Shape& shape, std::int32_t ranks);
/// The same, then the step of an optimizer whose states are cut over ranks, as ZeRO-1 has them. For
/// each bucket of weights: Adam on the own share; gather the new weights.
Workload dp_zero1(const Shape& shape, std::int32_t ranks);
/// As dp_zero2 with an all-reduce of dW, as DDP has it: every rank keeps all gradients.
Workload dp_ddp(const Shape& shape, std::int32_t ranks);

}  // namespace commfuse
