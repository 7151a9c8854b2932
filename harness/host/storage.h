// SPDX-License-Identifier: Apache-2.0
// Where a rank's tensors lie in host memory. A Storage does not own the blocks it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "suite/tensor.h"

namespace commfuse {

/// Address of every tensor of a plan: the workload's tensors, then its scratch. Row-major,
/// contiguous, 64-byte aligned.
class Storage {
 public:
  Storage(std::vector<Tensor> tensors, std::vector<std::byte*> blocks);

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] std::byte* data(TensorId id) const { return blocks_[id]; }
  /// First element of the view; rows are tensor(id).cols elements apart.
  [[nodiscard]] std::byte* at(const View& view) const;

  /// Packed form to and from float; float is rounded to nearest even. Sizes must match.
  void write(const View& view, std::span<const float> packed) const;
  void read(const View& view, std::span<float> packed) const;
  void poison(TensorId id) const;  // NaN everywhere

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::byte*> blocks_;
};

/// Throws std::invalid_argument unless the views have equal packed size and dtype.
void require_copyable(const Storage& target_storage, const View& target,
                      const Storage& source_storage, const View& source);

/// Copies the packed bytes of `source` over those of `target`; the views have equal packed size and
/// dtype, and may lie in different storages. This is what a wire or a Copy does.
void copy_view(const Storage& target_storage, const View& target, const Storage& source_storage,
               const View& source);

}  // namespace commfuse
