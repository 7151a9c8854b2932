// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/block_copy.h"

#include "harness/cuda/cuda_error.h"

namespace commfuse {
namespace {

bool in_one_run(const DeviceView& view) {
  const bool rows_touch = view.rows == 1 || view.pitch == view.cols;
  const bool strips_touch =
      view.strips == 1 || view.strip_step == std::int64_t{view.rows} * view.cols;
  return rows_touch && strips_touch;
}

bool cut_alike(const DeviceView& a, const DeviceView& b) {
  return a.rows == b.rows && a.cols == b.cols && a.strips == b.strips;
}

/// A view in one run of memory, cut as another one is.
DeviceView recut(const DeviceView& run, const DeviceView& like) {
  DeviceView view = like;
  view.data = run.data;
  view.pitch = like.cols;
  view.strip_step = std::int64_t{like.rows} * like.cols;
  return view;
}

BlockCopy one_run(const DeviceView& target, const DeviceView& source, std::size_t element) {
  const std::size_t bytes = static_cast<std::size_t>(source.rows) *
                            static_cast<std::size_t>(source.cols) *
                            static_cast<std::size_t>(source.strips) * element;
  return {static_cast<std::byte*>(target.data),
          static_cast<const std::byte*>(source.data),
          bytes,
          bytes,
          bytes,
          1};
}

BlockCopy strip_copy(const DeviceView& target, const DeviceView& source, std::int32_t strip,
                     std::size_t element) {
  const auto in_bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element;
  };
  return {static_cast<std::byte*>(target.data) + in_bytes(strip * target.strip_step),
          static_cast<const std::byte*>(source.data) + in_bytes(strip * source.strip_step),
          in_bytes(target.pitch),
          in_bytes(source.pitch),
          in_bytes(target.cols),
          static_cast<std::size_t>(target.rows)};
}

}  // namespace

std::optional<std::vector<BlockCopy>> block_copies(const DeviceView& target,
                                                   const DeviceView& source) {
  const auto element = static_cast<std::size_t>(bytes_of(target.dtype));
  const bool target_run = in_one_run(target);
  const bool source_run = in_one_run(source);
  if (target_run && source_run) return std::vector{one_run(target, source, element)};
  if (!cut_alike(target, source)) {
    if (source_run) return block_copies(target, recut(source, target));
    if (target_run) return block_copies(recut(target, source), source);
    return std::nullopt;
  }
  std::vector<BlockCopy> copies;
  for (std::int32_t s = 0; s < target.strips; ++s) {
    copies.push_back(strip_copy(target, source, s, element));
  }
  return copies;
}

void enqueue(const BlockCopy& copy, cudaStream_t stream) {
  if (copy.rows == 1) {
    CFB_CUDA(
        cudaMemcpyAsync(copy.target, copy.source, copy.width, cudaMemcpyDeviceToDevice, stream));
  } else {
    CFB_CUDA(cudaMemcpy2DAsync(copy.target, copy.target_pitch, copy.source, copy.source_pitch,
                               copy.width, copy.rows, cudaMemcpyDeviceToDevice, stream));
  }
}

}  // namespace commfuse
