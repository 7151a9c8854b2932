// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_rates.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/device_pattern.h"
#include "harness/cuda/device_peak.h"
#include "harness/cuda/rates.h"
#include "harness/cuda/timed_copy.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

using State = SelfTestPart::State;

constexpr std::int32_t kGemmGranule = 256;

/// Collective: what the least of all ranks can afford; the ranks that do not measure ask for
/// `most`.
std::size_t agreed_bytes(World& world, std::size_t own) {
  return static_cast<std::size_t>(-world.max(-static_cast<double>(own)));
}

/// By those ranks that measured, on rank 0.
std::vector<DeviceRate> gather_rates(World& world, const DevicePlaces& places, double own) {
  std::vector<DeviceRate> rates;
  const auto all = world.gather(std::as_bytes(std::span(&own, 1)), 0);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto rank = static_cast<std::int32_t>(r);
    if (!places.speaks(rank)) continue;
    rates.push_back({rank, places.names[r], values_of<double>(all[r]).front()});
  }
  return rates;
}

SelfTestPart too_little(std::string name) {
  return {std::move(name), "too little memory is free on a device", State::missing};
}

}  // namespace

SelfTestPart measure_gemm_rate(World& world, const DevicePlaces& places, const GemmSettings& gemm,
                               const RateLimits& limits) {
  const std::string name = "gemm rate";
  const auto most = std::size_t{2} * static_cast<std::size_t>(limits.gemm_size) *
                    static_cast<std::size_t>(limits.gemm_size);
  const std::size_t bytes = agreed_bytes(world, affordable_bytes(most, 3));
  std::int32_t size = limits.gemm_size;
  if (bytes < most) {
    size = static_cast<std::int32_t>(std::sqrt(bytes / 2)) / kGemmGranule * kGemmGranule;
  }
  if (size == 0) return too_little(name);
  world.barrier();
  const double own = places.speaks(world.rank()) ? measure_cuda_gemm_peak(gemm, size) / 1e12 : 0;
  const auto rates = gather_rates(world, places, own);
  if (world.rank() != 0) return {};
  return {name, fmt::format("{}; cuBLASLt, {} x {} x {} in bf16, best of {}",
                            device_rates_text(rates, kBf16Peak), size, size, size, kPeakTries)};
}

SelfTestPart measure_copy_rate(World& world, const DevicePlaces& places, const RateLimits& limits) {
  const std::string name = "copies within a device";
  const std::size_t bytes = agreed_bytes(world, affordable_bytes(limits.copy_bytes, 2));
  if (bytes == 0) return too_little(name);
  world.barrier();
  double own = 0;
  std::string wrong;
  if (places.speaks(world.rank())) {
    const auto seed = static_cast<std::uint32_t>(world.rank());
    const Stream stream(0);
    const DeviceMemory source(bytes);
    const DeviceMemory target(bytes);
    write_pattern(source.data(), bytes, seed, stream);
    CFB_CUDA(cudaMemsetAsync(target.data(), 0xff, bytes, stream));
    const std::int64_t ns =
        median_copy_ns(target.data(), source.data(), bytes, limits.repetitions, stream);
    own = gb_per_second(2 * static_cast<std::int64_t>(bytes), ns);
    wrong = first_wrong_word(target.data(), bytes, seed, stream);
    if (!wrong.empty()) wrong = fmt::format("on the device of rank {} {}", world.rank(), wrong);
  }
  wrong = first_text(world, wrong);
  const auto rates = gather_rates(world, places, own);
  if (world.rank() != 0) return {};
  if (!wrong.empty()) return {name, wrong, State::failed};
  return {name, fmt::format("{}; {} read and as many written, median of {}",
                            device_rates_text(rates, kMemoryBandwidth),
                            mib_text(static_cast<std::int64_t>(bytes)), limits.repetitions)};
}

std::vector<SelfTestPart> measure_rates(World& world, const Device& device,
                                        const GemmSettings& gemm, const NcclSettings& nccl,
                                        const RateLimits& limits) {
  const DevicePlaces places = find_places(world, device);
  std::vector<SelfTestPart> parts;
  parts.push_back(measure_gemm_rate(world, places, gemm, limits));
  parts.push_back(measure_copy_rate(world, places, limits));
  parts.push_back(measure_link_rates(world, places, limits));
  for (SelfTestPart& part : measure_collective_rates(world, places, nccl, limits)) {
    parts.push_back(std::move(part));
  }
  if (world.rank() != 0) parts.clear();
  return parts;
}

}  // namespace commfuse
