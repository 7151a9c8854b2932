// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/host_values.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "harness/cuda/cuda_error.h"
#include "harness/host/float_conversion.h"

namespace commfuse {
namespace {

void require_elements(const View& view, const Tensor& tensor, std::size_t packed) {
  if (static_cast<std::int64_t>(packed) != view.elements()) {
    throw std::invalid_argument(fmt::format("view {} has {} elements, the packed array {}",
                                            describe(view, tensor), view.elements(), packed));
  }
}

/// One strip between its place on the device and its part of the packed form.
struct StripBytes {
  std::byte* device;
  std::size_t packed_offset;
  std::size_t pitch;
  std::size_t width;
  std::size_t rows;
};

StripBytes strip_bytes(const DeviceStorage& storage, const View& view, std::int32_t strip) {
  const auto element = static_cast<std::size_t>(bytes_of(storage.tensor(view.tensor).dtype));
  const auto width = static_cast<std::size_t>(view.cols) * element;
  const auto rows = static_cast<std::size_t>(view.rows);
  return {storage.at(view.strip(strip)), static_cast<std::size_t>(strip) * rows * width,
          static_cast<std::size_t>(storage.tensor(view.tensor).cols) * element, width, rows};
}

}  // namespace

void write_values(const DeviceStorage& storage, const View& view, std::span<const float> packed,
                  cudaStream_t stream) {
  const Tensor& tensor = storage.tensor(view.tensor);
  require_elements(view, tensor, packed.size());
  std::vector<std::byte> bytes(packed.size() * static_cast<std::size_t>(bytes_of(tensor.dtype)));
  store_floats(tensor.dtype, packed.data(), bytes.data(), view.elements());
  for (std::int32_t s = 0; s < view.strips; ++s) {
    const StripBytes strip = strip_bytes(storage, view, s);
    CFB_CUDA(cudaMemcpy2DAsync(strip.device, strip.pitch, bytes.data() + strip.packed_offset,
                               strip.width, strip.width, strip.rows, cudaMemcpyHostToDevice,
                               stream));
  }
  CFB_CUDA(cudaStreamSynchronize(stream));
}

void read_values(const DeviceStorage& storage, const View& view, std::span<float> packed,
                 cudaStream_t stream) {
  const Tensor& tensor = storage.tensor(view.tensor);
  require_elements(view, tensor, packed.size());
  std::vector<std::byte> bytes(packed.size() * static_cast<std::size_t>(bytes_of(tensor.dtype)));
  for (std::int32_t s = 0; s < view.strips; ++s) {
    const StripBytes strip = strip_bytes(storage, view, s);
    CFB_CUDA(cudaMemcpy2DAsync(bytes.data() + strip.packed_offset, strip.width, strip.device,
                               strip.pitch, strip.width, strip.rows, cudaMemcpyDeviceToHost,
                               stream));
  }
  CFB_CUDA(cudaStreamSynchronize(stream));
  load_floats(tensor.dtype, bytes.data(), packed.data(), view.elements());
}

}  // namespace commfuse
