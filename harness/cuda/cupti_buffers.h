// SPDX-License-Identifier: Apache-2.0
// The memory in which CUPTI hands out records. Its callbacks carry nothing of ours, so the buffers
// belong to the process, as its subscriber does, and not to whoever reads them.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace commfuse {

/// Any thread may call: CUPTI calls back from threads of its own.
class CuptiBuffers {
 public:
  /// Never destroyed: CUPTI may call back until the process ends.
  static CuptiBuffers& of_process();
  CuptiBuffers(const CuptiBuffers&) = delete;
  CuptiBuffers& operator=(const CuptiBuffers&) = delete;

  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Filled {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t valid = 0;  // bytes
    [[nodiscard]] std::span<std::byte> records() const { return {memory.get(), valid}; }
  };

  /// Buffers that need not be allocated while something is timed.
  void allocate_ahead();
  /// What CUPTI has filled since the last call, in that order.
  std::vector<Filled> take();
  /// To be filled again.
  void give_back(std::vector<Filled> buffers);

  static void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* size,
                                 std::size_t* max_records);
  static void CUPTIAPI completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                 std::size_t size, std::size_t valid);

 private:
  using Memory = std::unique_ptr<std::byte, Free>;

  CuptiBuffers() = default;
  Memory spare_or_new();

  std::mutex mutex_;  // never held across a call of CUPTI
  std::vector<Memory> spare_;
  std::vector<Filled> filled_;
};

}  // namespace commfuse
