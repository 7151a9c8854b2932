// SPDX-License-Identifier: Apache-2.0
// The device of a rank: which one it is, and what is known of it.
#pragma once

#include <cstdint>
#include <string>

#include "harness/world/world.h"

namespace commfuse {

struct Device {
  std::int32_t index = 0;
  std::string name;
  std::string pci;  // its address, "0000:19:00.0": what numbers it the same for everybody
  std::int32_t sms = 0;
  std::int32_t ranks_here = 1;  // ranks of this launch that share it
  std::int32_t ranks_on_node = 1;
  std::int32_t connections = 0;  // CUDA_DEVICE_MAX_CONNECTIONS in force
  std::int32_t copy_engines = 0;
  int transfer_priority = 0;  // the highest a stream can have
  int compute_priority = 0;   // the lowest
  bool flushes_remote_writes = false;
  std::string driver;  // "13.0", of the CUDA driver interface
  std::string runtime;
};

/// Collective over the world; makes no context. The devices of this node. Throws Unsupported on
/// every rank, with the reason of the first one that has none: no driver, one that is too old, no
/// device.
int require_devices(World& world);

/// The address of a device on the PCI bus. Throws LibraryError.
std::string pci_of(int device);

/// Collective over the world. Ranks take the devices of their node in turn; all calls of this
/// rank's thread then refer to its own. Sets CUDA_DEVICE_MAX_CONNECTIONS to 32 where the
/// environment does not say otherwise, which must happen before the first CUDA call of the process.
/// Throws as require_devices does, and LibraryError.
Device select_device(World& world);

}  // namespace commfuse
