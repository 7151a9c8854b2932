// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_view.h"

#include <algorithm>

namespace commfuse {
namespace {

bool vectors_fit(const DeviceView& view) {
  const std::int64_t size = bytes_of(view.dtype);
  const bool pitch_fits = view.rows <= 1 || view.pitch * size % kVectorBytes == 0;
  const bool step_fits = view.strips <= 1 || view.strip_step * size % kVectorBytes == 0;
  return pitch_fits && step_fits && view.cols * size % kVectorBytes == 0 &&
         reinterpret_cast<std::uintptr_t>(view.data) % kVectorBytes == 0;
}

}  // namespace

DeviceView device_view(const View& view, const DeviceStorage& storage) {
  const Tensor& tensor = storage.tensor(view.tensor);
  return {.data = storage.at(view),
          .pitch = tensor.cols,
          .strip_step = std::int64_t{view.row_step} * tensor.cols + view.col_step,
          .rows = view.rows,
          .cols = view.cols,
          .strips = view.strips,
          .dtype = tensor.dtype};
}

DeviceView in_words(const DeviceView& view, std::int64_t word_bytes) {
  const std::int64_t size = bytes_of(view.dtype);
  DeviceView words = view;
  words.pitch = view.pitch * size / word_bytes;
  words.strip_step = view.strip_step * size / word_bytes;
  words.cols = static_cast<std::int32_t>(view.cols * size / word_bytes);
  return words;
}

bool vectors_fit(std::initializer_list<DeviceView> views) {
  return std::ranges::all_of(views, [](const DeviceView& view) { return vectors_fit(view); });
}

}  // namespace commfuse
