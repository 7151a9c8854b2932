// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_protocol.h"

namespace commfuse {
namespace {

constexpr std::uint32_t kNotYet = 0;
constexpr std::uint32_t kDone = 1;

}  // namespace

std::uint32_t CounterProtocol::value(Epoch epoch) const {
  return constants_ ? kDone : counter_value(epoch);
}

bool CounterProtocol::reached(std::uint32_t value, Epoch epoch) const {
  if (constants_) return value == kDone;
  return static_cast<std::int32_t>(value - counter_value(epoch)) >= 0;
}

void CounterProtocol::tell(cudaStream_t stream, std::byte* counter, Epoch epoch) const {
  counters_->write(stream, counter, value(epoch));
}

void CounterProtocol::wait(cudaStream_t stream, const std::byte* counter, Epoch epoch) const {
  if (constants_) {
    counters_->wait_for_value(stream, counter, kDone);
  } else {
    counters_->wait_until_reached(stream, counter, value(epoch));
  }
}

void CounterProtocol::take(cudaStream_t stream, std::byte* counter, Epoch epoch) const {
  wait(stream, counter, epoch);
  put_back(stream, counter);
}

void CounterProtocol::put_back(cudaStream_t stream, std::byte* counter) const {
  if (constants_) counters_->write(stream, counter, kNotYet);
}

}  // namespace commfuse
