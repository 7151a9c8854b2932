// SPDX-License-Identifier: Apache-2.0
// Tensors with memory of their own, and a Storage over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/host/storage.h"

namespace commfuse {

class TensorSet {
 public:
  TensorId add(std::int32_t rows, std::int32_t cols, DType dtype = DType::f32) {
    const auto id = static_cast<TensorId>(tensors_.size());
    tensors_.push_back({"t" + std::to_string(id), rows, cols, dtype});
    const auto bytes = static_cast<std::size_t>(tensors_.back().bytes());
    blocks_.emplace_back(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    storage().poison(id);
    return id;
  }

  /// Values uniform in [-1, 1).
  void fill_random(TensorId id, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> values(-1.0F, 1.0F);
    fill(id, [&] { return values(generator); });
  }
  /// Whole numbers from -2 to 2: sums of their products are exact.
  void fill_exact(TensorId id, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::uniform_int_distribution<int> values(-2, 2);
    fill(id, [&] { return static_cast<float>(values(generator)); });
  }

  [[nodiscard]] Storage storage() const {
    std::vector<std::byte*> addresses;
    for (const Block& block : blocks_) addresses.push_back(block.get());
    return {tensors_, addresses};
  }
  [[nodiscard]] View all(TensorId id) const { return whole(id, tensors_[id]); }

  /// Packed values of a view.
  [[nodiscard]] std::vector<float> read(const View& view) const {
    std::vector<float> packed(static_cast<std::size_t>(view.elements()));
    storage().read(view, packed);
    return packed;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* block) const { ::operator delete(block, kAlignment); }
  };
  using Block = std::unique_ptr<std::byte, Free>;

  template <class Value>
  void fill(TensorId id, Value value) {
    std::vector<float> packed(static_cast<std::size_t>(tensors_[id].elements()));
    for (float& element : packed) element = value();
    storage().write(all(id), packed);
  }

  std::vector<Tensor> tensors_;
  std::vector<Block> blocks_;
};

}  // namespace commfuse
