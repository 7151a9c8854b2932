// SPDX-License-Identifier: Apache-2.0
// What this rank sees of its machine, through the CUDA runtime, NVML and the kernel's files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/cuda/device.h"
#include "harness/cuda/device_state.h"
#include "harness/cuda/machine_facts.h"
#include "harness/cuda/machine_findings.h"
#include "harness/cuda/nvml_library.h"
#include "harness/world/world.h"

namespace commfuse {

/// Where a rank looks. Tests put others in their place.
struct MachineSources {
  std::optional<NvmlLibrary> nvml;
  std::string without_nvml;          // why there is none
  std::filesystem::path root = "/";  // has sys and proc

  static MachineSources of_this_machine();
  /// Absent, with the reason in `why` if that is given, where NVML does not show the device.
  [[nodiscard]] std::optional<DeviceState> state_of(const std::string& pci,
                                                    std::string* why = nullptr) const;
};

/// All but what the libraries of the backend say of themselves. Throws LibraryError.
RankFacts facts_of_rank(const World& world, const Device& device, const MachineSources& sources);

}  // namespace commfuse
