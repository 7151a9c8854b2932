// SPDX-License-Identifier: Apache-2.0
// NVML without a driver: devices made up by a test, behind the table of functions that the backend
// uses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/cuda/nvml_library.h"

namespace commfuse::fake {

/// What is absent is answered by "not supported".
struct FakeCard {
  std::optional<unsigned int> clock_mhz = 1980;
  std::optional<unsigned int> application_clock_mhz = 1980;
  std::optional<unsigned int> default_application_clock_mhz = 1980;
  std::optional<unsigned int> max_clock_mhz = 1980;
  std::optional<unsigned long long> reasons = 0;
  std::optional<unsigned int> power_mw = 700'000;
  std::optional<unsigned long long> energy_mj = 0;
  unsigned long long energy_step_mj = 1000;  // by which each reading finds it higher
  std::optional<int> ecc = 1;
  std::optional<int> persistence = 1;
  std::optional<int> compute_mode = nvml::kDefault;
  std::optional<std::vector<unsigned int>> processes = std::vector<unsigned int>{};
  std::vector<int> links = std::vector<int>(18, 1);  // whether each is up
  std::optional<unsigned char> fabric_state = nvml::kCompleted;
};

/// From its construction to its destruction it is the one that the functions answer from. One at a
/// time, and one thread at a time in its functions.
class FakeNvml {
 public:
  FakeNvml();
  ~FakeNvml();
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  std::map<std::string, FakeCard> cards;  // by PCI address, as CUDA writes it

  [[nodiscard]] static NvmlFunctions functions();
};

}  // namespace commfuse::fake
