// SPDX-License-Identifier: Apache-2.0
// Memory of this rank that NCCL may use without a copy of its own: registered with one of its
// communicators, or a window of it that all ranks have alike.
#pragma once

#include <nccl.h>

#include <span>
#include <vector>

#include "harness/cuda/rank_storage.h"
#include "harness/world/world.h"
#include "impls/plan.h"

namespace commfuse {

/// That NCCL took a registration does not mean that its collectives make use of it: without
/// symmetric memory NCCL 2.28 returns a handle that is no window. Names of its kernels tell.
class NcclRegistration {
 public:
  /// Collective. `via` is not standard. All ranks register ranges of the same sizes in the same
  /// order, each from the base of an allocation of NCCL on, which outlives this as the communicator
  /// does. Throws Unsupported on every rank, with NCCL's text, where it refuses a rank; then
  /// nothing stays registered.
  NcclRegistration(World& group, ncclComm_t communicator, CollectiveVia via,
                   std::span<const MemoryRange> ranges);
  /// Collective, but while an exception unwinds: waits for the device and for the other ranks,
  /// whose kernels and copy engines may write to this rank's windows.
  ~NcclRegistration();
  NcclRegistration(const NcclRegistration&) = delete;
  NcclRegistration& operator=(const NcclRegistration&) = delete;

 private:
  void add(const MemoryRange& range);
  void give_back() noexcept;
  void wait_for_others() noexcept;

  World& group_;
  ncclComm_t communicator_;
  CollectiveVia via_;
  std::vector<void*> handles_;  // in the order in which they were made
  int exceptions_;              // in flight when this was made
};

}  // namespace commfuse
