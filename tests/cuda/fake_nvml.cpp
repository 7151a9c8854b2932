// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake_nvml.h"

#include <stdexcept>

namespace commfuse::fake {
namespace {

constexpr nvml::Result kNotFound = 6;

/// The functions of a C library have no state of their own.
FakeNvml*& current() {
  static FakeNvml* fake = nullptr;
  return fake;
}

FakeCard& card_of(nvml::Device device) { return *reinterpret_cast<FakeCard*>(device); }

template <class Value, class Out>
nvml::Result answer(const std::optional<Value>& value, Out* out) {
  if (!value) return nvml::kNotSupported;
  *out = static_cast<Out>(*value);
  return nvml::kSuccess;
}

nvml::Result clock(nvml::Device device, int kind, unsigned int* mhz) {
  if (kind != nvml::kSmClock) return nvml::kNotSupported;
  return answer(card_of(device).clock_mhz, mhz);
}

nvml::Result energy(nvml::Device device, unsigned long long* mj) {
  FakeCard& card = card_of(device);
  if (card.energy_mj) *card.energy_mj += card.energy_step_mj;
  return answer(card.energy_mj, mj);
}

nvml::Result processes(nvml::Device device, unsigned int* count, nvml::Process* all) {
  const auto& pids = card_of(device).processes;
  if (!pids) return nvml::kNotSupported;
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(pids->size());
  if (room < pids->size()) return nvml::kInsufficientSize;
  for (std::size_t i = 0; i < pids->size(); ++i) all[i].pid = (*pids)[i];
  return nvml::kSuccess;
}

nvml::Result link_state(nvml::Device device, unsigned int link, int* active) {
  const std::vector<int>& links = card_of(device).links;
  if (link >= links.size()) return nvml::kNotSupported;
  *active = links[link];
  return nvml::kSuccess;
}

nvml::Result device_by_pci(const char* pci, nvml::Device* device) {
  if (current() == nullptr) throw std::logic_error("there is no FakeNvml");
  const auto card = current()->cards.find(pci);
  if (card == current()->cards.end()) return kNotFound;
  *device = reinterpret_cast<nvml::Device>(&card->second);
  return nvml::kSuccess;
}

}  // namespace

FakeNvml::FakeNvml() { current() = this; }
FakeNvml::~FakeNvml() { current() = nullptr; }

NvmlFunctions FakeNvml::functions() {
  NvmlFunctions all;
  all.init = [] { return nvml::kSuccess; };
  all.error_string = [](nvml::Result result) {
    return result == kNotFound ? "Not Found" : "Not Supported";
  };
  all.device_by_pci = device_by_pci;
  all.clock = clock;
  all.application_clock = [](nvml::Device device, int kind, unsigned int* mhz) {
    if (kind != nvml::kGraphicsClock) return nvml::kNotSupported;
    return answer(card_of(device).application_clock_mhz, mhz);
  };
  all.default_application_clock = [](nvml::Device device, int kind, unsigned int* mhz) {
    if (kind != nvml::kGraphicsClock) return nvml::kNotSupported;
    return answer(card_of(device).default_application_clock_mhz, mhz);
  };
  all.max_clock = [](nvml::Device device, int, unsigned int* mhz) {
    return answer(card_of(device).max_clock_mhz, mhz);
  };
  all.clock_limits = [](nvml::Device device, unsigned long long* reasons) {
    return answer(card_of(device).reasons, reasons);
  };
  all.power = [](nvml::Device device, unsigned int* mw) {
    return answer(card_of(device).power_mw, mw);
  };
  all.energy = energy;
  all.ecc = [](nvml::Device device, int* now, int* after_restart) {
    *after_restart = 0;
    return answer(card_of(device).ecc, now);
  };
  all.persistence = [](nvml::Device device, int* on) {
    return answer(card_of(device).persistence, on);
  };
  all.compute_mode = [](nvml::Device device, int* mode) {
    return answer(card_of(device).compute_mode, mode);
  };
  all.processes = processes;
  all.link_state = link_state;
  all.fabric = [](nvml::Device device, nvml::Fabric* fabric) {
    return answer(card_of(device).fabric_state, &fabric->state);
  };
  return all;
}

}  // namespace commfuse::fake
