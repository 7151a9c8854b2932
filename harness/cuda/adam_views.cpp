// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/adam_views.h"

#include <fmt/format.h>

namespace commfuse {

AdamViews adam_views(const Adam& op, const DeviceStorage& storage) {
  AdamViews views{.new_w = device_view(op.new_w, storage),
                  .new_m = device_view(op.new_m, storage),
                  .new_v = device_view(op.new_v, storage),
                  .w = device_view(op.w, storage),
                  .m = device_view(op.m, storage),
                  .v = device_view(op.v, storage),
                  .g = device_view(op.g, storage),
                  .copy = {}};
  if (op.copy) views.copy = device_view(*op.copy, storage);
  return views;
}

std::string unsupported_adam(const Adam& op, const DeviceStorage& storage) {
  for (const View& view : {op.new_w, op.new_m, op.new_v, op.w, op.m, op.v}) {
    const Tensor& tensor = storage.tensor(view.tensor);
    if (tensor.dtype == DType::f32) continue;
    return fmt::format("step of Adam with {} {}", name_of(tensor.dtype), tensor.name);
  }
  if (!op.copy) return {};
  const Tensor& g = storage.tensor(op.g.tensor);
  const Tensor& copy = storage.tensor(op.copy->tensor);
  if (g.dtype == DType::f32 || g.dtype == copy.dtype) return {};
  return fmt::format("{} {} from a step of Adam with {} {}", name_of(copy.dtype), copy.name,
                     name_of(g.dtype), g.name);
}

}  // namespace commfuse
