// SPDX-License-Identifier: Apache-2.0
// NVML, the driver's library for managing devices, opened at run time: without it clocks, power and
// other users of a device are not known, and everything else goes on. The toolkit may lack its
// header, so the prototypes that are used, all of them stable, are declared here.
#pragma once

#include <string>

namespace commfuse {

namespace nvml {

using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kNotSupported = 3;
constexpr Result kInsufficientSize = 7;

struct Opaque;
using Device = Opaque*;

// Kinds of clocks. Settings are those of the graphics clock, which the SMs follow.
constexpr int kGraphicsClock = 0;
constexpr int kSmClock = 1;

enum ComputeMode : int { kDefault = 0, kProhibited = 2, kExclusiveProcess = 3 };

/// A process with a context on a device.
struct Process {
  unsigned int pid = 0;
  unsigned long long memory_bytes = 0;
  unsigned int gpu_instance = 0;
  unsigned int compute_instance = 0;
};

/// What a device is to the NVLink fabric of its node or rack.
struct Fabric {
  unsigned char cluster[16] = {};
  Result status = kSuccess;  // of the registration, once it is completed
  unsigned int clique = 0;
  unsigned char state = 0;
};
enum FabricState : unsigned char {
  kNoFabric = 0,
  kNotStarted = 1,
  kInProgress = 2,
  kCompleted = 3
};

}  // namespace nvml

/// The functions that are used. A test puts others in their place. Null: this driver has none; only
/// the first four are always there.
struct NvmlFunctions {
  nvml::Result (*init)() = nullptr;
  const char* (*error_string)(nvml::Result) = nullptr;
  nvml::Result (*device_by_pci)(const char*, nvml::Device*) = nullptr;
  nvml::Result (*clock)(nvml::Device, int kind, unsigned int* mhz) = nullptr;

  nvml::Result (*application_clock)(nvml::Device, int kind, unsigned int* mhz) = nullptr;
  nvml::Result (*default_application_clock)(nvml::Device, int kind, unsigned int* mhz) = nullptr;
  nvml::Result (*max_clock)(nvml::Device, int kind, unsigned int* mhz) = nullptr;
  nvml::Result (*clock_limits)(nvml::Device, unsigned long long* reasons) = nullptr;
  nvml::Result (*power)(nvml::Device, unsigned int* mw) = nullptr;
  nvml::Result (*energy)(nvml::Device, unsigned long long* mj) = nullptr;
  nvml::Result (*ecc)(nvml::Device, int* now, int* after_restart) = nullptr;
  nvml::Result (*persistence)(nvml::Device, int* on) = nullptr;
  nvml::Result (*compute_mode)(nvml::Device, int* mode) = nullptr;
  nvml::Result (*processes)(nvml::Device, unsigned int* count, nvml::Process*) = nullptr;
  nvml::Result (*link_state)(nvml::Device, unsigned int link, int* active) = nullptr;
  nvml::Result (*fabric)(nvml::Device, nvml::Fabric*) = nullptr;
};

class NvmlLibrary {
 public:
  /// Functions of a caller's choice; nothing is opened.
  explicit NvmlLibrary(const NvmlFunctions& functions) : functions_(functions) {}
  /// Opens `file` and initialises it. Throws std::runtime_error with the loader's reason, with the
  /// function that the library lacks, or with NVML's. Never closed: it lasts as long as the
  /// process.
  static NvmlLibrary open(const std::string& file = "libnvidia-ml.so.1");

  const NvmlFunctions* operator->() const { return &functions_; }

 private:
  NvmlFunctions functions_;
};

}  // namespace commfuse
