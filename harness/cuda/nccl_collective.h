// SPDX-License-Identifier: Apache-2.0
// One collective of a plan as calls of NCCL.
#pragma once

#include <nccl.h>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device_storage.h"
#include "impls/plan.h"

namespace commfuse {

ncclDataType_t nccl_type(DType dtype);

/// The sends and receives between construction and end() start together. Left by an exception, the
/// group stays open, and the program ends.
class NcclGroup {
 public:
  NcclGroup() { CFB_CUDA(ncclGroupStart()); }
  void end() { CFB_CUDA(ncclGroupEnd()); }
};

/// On `stream`, over the communicator for what.via. `storage` is that of the calling rank.
void enqueue_collective(const Collective& what, const DeviceStorage& storage,
                        ncclComm_t communicator, cudaStream_t stream);

}  // namespace commfuse
