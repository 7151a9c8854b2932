// SPDX-License-Identifier: Apache-2.0
// A device as NVML shows it: what it does now, and how it is set. A value that this driver or this
// device cannot tell is absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/cuda/nvml_library.h"
#include "harness/device_reading.h"

namespace commfuse {

/// Which NVLinks of a device are up.
struct NvLinks {
  std::int32_t active = 0;
  std::int32_t inactive = 0;
};

/// Its functions may be called by any thread.
class DeviceState {
 public:
  /// Of the device at this address of the PCI bus, as cudaDeviceGetPCIBusId writes it: numbers of
  /// devices are others where CUDA_VISIBLE_DEVICES is set. Throws std::runtime_error.
  DeviceState(const NvmlLibrary& nvml, const std::string& pci);

  [[nodiscard]] DeviceReading read() const;

  [[nodiscard]] std::optional<double> sm_clock_mhz() const;
  [[nodiscard]] std::optional<double> application_clock_mhz() const;
  [[nodiscard]] std::optional<double> default_application_clock_mhz() const;
  [[nodiscard]] std::optional<double> max_clock_mhz() const;
  /// Bits of kClockLimits. That it is idle is no limit.
  [[nodiscard]] std::optional<std::uint32_t> limits() const;
  [[nodiscard]] std::optional<bool> ecc() const;
  [[nodiscard]] std::optional<bool> persistence() const;
  [[nodiscard]] std::optional<nvml::ComputeMode> compute_mode() const;
  /// Those with a compute context, as the driver's host numbers them.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> processes() const;
  [[nodiscard]] std::optional<NvLinks> links() const;
  [[nodiscard]] std::optional<nvml::Fabric> fabric() const;

 private:
  NvmlLibrary nvml_;
  nvml::Device device_ = nullptr;
};

}  // namespace commfuse
