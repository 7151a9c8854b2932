// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/cupti_buffers.h"

#include <cstdlib>
#include <utility>

namespace commfuse {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kAhead = 4;

std::unique_ptr<std::byte, CuptiBuffers::Free> make_buffer() {
  return std::unique_ptr<std::byte, CuptiBuffers::Free>(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBufferBytes)));
}

}  // namespace

CuptiBuffers& CuptiBuffers::of_process() {
  static auto* const buffers = new CuptiBuffers;
  return *buffers;
}

void CuptiBuffers::Free::operator()(std::byte* memory) const { std::free(memory); }

void CuptiBuffers::allocate_ahead() {
  const std::lock_guard lock(mutex_);
  while (spare_.size() < kAhead) spare_.push_back(make_buffer());
}

std::vector<CuptiBuffers::Filled> CuptiBuffers::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(filled_, {});
}

void CuptiBuffers::give_back(std::vector<Filled> buffers) {
  const std::lock_guard lock(mutex_);
  for (Filled& each : buffers) spare_.push_back(std::move(each.memory));
}

CuptiBuffers::Memory CuptiBuffers::spare_or_new() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      Memory spare = std::move(spare_.back());
      spare_.pop_back();
      return spare;
    }
  }
  return make_buffer();
}

void CuptiBuffers::requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = reinterpret_cast<std::uint8_t*>(of_process().spare_or_new().release());
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void CuptiBuffers::completed(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                             std::size_t /*size*/, std::size_t valid) {
  CuptiBuffers& buffers = of_process();
  const std::lock_guard lock(buffers.mutex_);
  buffers.filled_.push_back({Memory(reinterpret_cast<std::byte*>(buffer)), valid});
}

}  // namespace commfuse
