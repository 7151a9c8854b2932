// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_protocol.h"

namespace commfuse {
namespace {

constexpr std::uint32_t kNotYet = 0;
constexpr std::uint32_t kDone = 1;

}  // namespace

void CounterProtocol::tell(cudaStream_t stream, std::byte* counter, Epoch epoch) const {
  counters_->write(stream, counter, constants_ ? kDone : counter_value(epoch));
}

void CounterProtocol::wait(cudaStream_t stream, const std::byte* counter, Epoch epoch) const {
  if (constants_) {
    counters_->wait_for_value(stream, counter, kDone);
  } else {
    counters_->wait_until_reached(stream, counter, counter_value(epoch));
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
