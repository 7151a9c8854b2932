// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_counters.h"

#include "harness/cuda/cuda_error.h"

namespace commfuse {

void CounterOps::write(cudaStream_t stream, std::byte* counter, std::uint32_t value) const {
  CFB_CUDA(functions_.write(stream, reinterpret_cast<CUdeviceptr>(counter), value,
                            CU_STREAM_WRITE_VALUE_DEFAULT));
}

void CounterOps::wait_until_reached(cudaStream_t stream, const std::byte* counter,
                                    std::uint32_t value) const {
  wait(stream, counter, value, CU_STREAM_WAIT_VALUE_GEQ);
}

void CounterOps::wait_for_value(cudaStream_t stream, const std::byte* counter,
                                std::uint32_t value) const {
  wait(stream, counter, value, CU_STREAM_WAIT_VALUE_EQ);
}

void CounterOps::wait(cudaStream_t stream, const std::byte* counter, std::uint32_t value,
                      unsigned int comparison) const {
  unsigned int flags = comparison;
  if (flush_) flags |= CU_STREAM_WAIT_VALUE_FLUSH;
  CFB_CUDA(functions_.wait(stream, reinterpret_cast<CUdeviceptr>(counter), value, flags));
}

}  // namespace commfuse
