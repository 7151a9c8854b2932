// SPDX-License-Identifier: Apache-2.0
// Simulated device memory of all ranks: one address space with real bytes behind it, so that a rank
// may use the address of another. Freed memory is kept until the end, so that no address means two
// things in one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace commfuse::fake {

/// Bytes that an operation reads or writes.
struct Range {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

/// Whether two ranges share a byte.
[[nodiscard]] bool overlap(const Range& a, const Range& b);

struct Allocation {
  struct Release {
    std::size_t alignment;
    void operator()(std::byte* storage) const noexcept;
  };
  std::int32_t rank = 0;
  std::string name;
  std::size_t bytes = 0;
  bool freed = false;
  std::unique_ptr<std::byte, Release> storage;  // with a red zone behind it
  std::vector<bool> written;                    // per byte: false is poison

  [[nodiscard]] std::size_t offset(const void* address) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - storage.get());
  }
};

class SimulatedMemory {
 public:
  /// Poison: bytes that nobody wrote. As floating point numbers they are NaN.
  static constexpr std::uint8_t kPoison = 0xff;

  static constexpr std::size_t kAlignment = 256;  // of cudaMalloc

  /// The memory owns the bytes.
  std::byte* allocate(std::int32_t rank, std::size_t bytes, std::string name,
                      std::size_t alignment = kAlignment);
  /// The live allocation with this base. Throws Finding if there is none, or it was freed.
  [[nodiscard]] Range whole(const void* base) const;
  /// Marks the allocation with this base freed.
  void release(const void* base);

  /// The live allocation that contains the range. Throws Finding (out_of_bounds, use_after_free).
  [[nodiscard]] Allocation& find(const Range& range) const;
  /// Whether the range lies in an allocation, live or freed: its bytes can be looked at.
  [[nodiscard]] bool is_backed(const Range& range) const;
  /// Whether nobody wrote the first byte of the range, which must be backed.
  [[nodiscard]] bool is_poison(const Range& range) const;

  /// Throws Finding (poison) if a byte of the range was never written.
  static void check_written(const Allocation& allocation, const Range& range);
  static void mark_written(Allocation& allocation, const Range& range);

  /// Gives an address a name for reports, for example "flag[2]".
  void name_address(const void* address, std::string name);
  /// "rank 1 flag[2]", or "rank 1 slab + 256" for an address without a name.
  [[nodiscard]] std::string describe(const void* address) const;

 private:
  [[nodiscard]] const Allocation* containing(const void* address) const;

  std::map<std::uintptr_t, std::unique_ptr<Allocation>> allocations_;  // by base
  std::map<const void*, std::string> names_;
};

}  // namespace commfuse::fake
