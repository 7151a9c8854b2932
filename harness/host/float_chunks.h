// SPDX-License-Identifier: Apache-2.0
// Rows of tensors as fp32, chunk by chunk: where they lie, or through pieces of stack that stay in
// the first-level cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "harness/host/float_conversion.h"
#include "harness/host/storage.h"

namespace commfuse {

constexpr std::int64_t kChunk = 1024;
/// Stack of one chunk; declare it alignas(64).
using Chunk = std::array<float, kChunk>;

/// `elements` floats of a tensor from element `offset` on: where they lie, or expanded into
/// `space`.
inline const float* floats_at(const Storage& storage, TensorId id, std::int64_t offset,
                              std::int64_t elements, Chunk& space) {
  const DType dtype = storage.tensor(id).dtype;
  const std::byte* first = storage.data(id) + offset * bytes_of(dtype);
  if (!is_narrow(dtype)) return reinterpret_cast<const float*>(first);
  load_floats(dtype, first, space.data(), elements);
  return space.data();
}

/// Where `elements` floats of a tensor from element `offset` on are to be put: where they lie, or
/// in `space`, from which store() rounds them into the tensor.
class ChunkTarget {
 public:
  ChunkTarget(const Storage& storage, TensorId id, std::int64_t offset, Chunk& space)
      : dtype_(storage.tensor(id).dtype),
        target_(storage.data(id) + offset * bytes_of(dtype_)),
        floats_(is_narrow(dtype_) ? space.data() : reinterpret_cast<float*>(target_)) {}

  [[nodiscard]] float* floats() const { return floats_; }
  void store(std::int64_t elements) const {
    if (is_narrow(dtype_)) store_floats(dtype_, floats_, target_, elements);
  }

 private:
  DType dtype_;
  std::byte* target_;
  float* floats_;
};

/// Calls act(first column, number of columns) for chunks of a row.
template <class Act>
void for_chunks(std::int64_t cols, const Act& act) {
  for (std::int64_t col = 0; col < cols; col += kChunk) act(col, std::min(kChunk, cols - col));
}

}  // namespace commfuse
