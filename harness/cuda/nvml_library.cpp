// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

namespace commfuse {
namespace {

class Symbols {
 public:
  explicit Symbols(const std::string& file)
      : file_(file), library_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
  }

  /// Takes the name of an older driver too, if there is one.
  template <class Function>
  void look_for(Function& function, const char* name, const char* old_name = nullptr) const {
    void* found = dlsym(library_, name);
    if (found == nullptr && old_name != nullptr) found = dlsym(library_, old_name);
    function = reinterpret_cast<Function>(found);
  }

  template <class Function>
  void find(Function& function, const char* name) const {
    look_for(function, name);
    if (function == nullptr) throw std::runtime_error(fmt::format("{} lacks {}", file_, name));
  }

 private:
  std::string file_;
  void* library_;
};

}  // namespace

NvmlLibrary NvmlLibrary::open(const std::string& file) {
  const Symbols symbols(file);
  NvmlFunctions all;
  symbols.find(all.init, "nvmlInit_v2");
  symbols.find(all.error_string, "nvmlErrorString");
  symbols.find(all.device_by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
  symbols.find(all.clock, "nvmlDeviceGetClockInfo");
  symbols.look_for(all.application_clock, "nvmlDeviceGetApplicationsClock");
  symbols.look_for(all.default_application_clock, "nvmlDeviceGetDefaultApplicationsClock");
  symbols.look_for(all.max_clock, "nvmlDeviceGetMaxClockInfo");
  symbols.look_for(all.clock_limits, "nvmlDeviceGetCurrentClocksEventReasons",
                   "nvmlDeviceGetCurrentClocksThrottleReasons");
  symbols.look_for(all.power, "nvmlDeviceGetPowerUsage");
  symbols.look_for(all.energy, "nvmlDeviceGetTotalEnergyConsumption");
  symbols.look_for(all.ecc, "nvmlDeviceGetEccMode");
  symbols.look_for(all.persistence, "nvmlDeviceGetPersistenceMode");
  symbols.look_for(all.compute_mode, "nvmlDeviceGetComputeMode");
  symbols.look_for(all.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  symbols.look_for(all.link_state, "nvmlDeviceGetNvLinkState");
  symbols.look_for(all.fabric, "nvmlDeviceGetGpuFabricInfo");
  const nvml::Result result = all.init();
  if (result != nvml::kSuccess) {
    throw std::runtime_error(fmt::format("nvmlInit_v2 says {}", all.error_string(result)));
  }
  return NvmlLibrary(all);
}

}  // namespace commfuse
