// SPDX-License-Identifier: Apache-2.0
// What devices and their links reach on this machine, for --selftest, beside what datasheets say:
// whoever doubts a schedule's time can see first whether the machine is what it is taken for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/backend.h"
#include "harness/cuda/device.h"
#include "harness/cuda/device_places.h"
#include "harness/cuda/gemm_settings.h"
#include "harness/cuda/nccl_communicators.h"
#include "harness/world/world.h"

namespace commfuse {

/// The most that is taken; less where the free memory of the devices asks for it.
struct RateLimits {
  std::int32_t gemm_size = 8192;
  std::size_t copy_bytes = std::size_t{256} << 20;
  std::size_t link_bytes = std::size_t{64} << 20;
  std::size_t collective_bytes = std::size_t{128} << 20;  // of the array of all ranks
  std::int32_t repetitions = 10;                          // of copies; medians are printed
  std::int32_t collective_repetitions = 20;
  double link_seconds = 5;  // then the pairs that are left are left out
};

/// Collective over the world: gemms, copies within a device, links between devices, collectives.
/// The parts on rank 0. A part has failed only where wrong bytes arrived; it is missing where
/// ranks, devices or the environment do not allow it. Throws LibraryError.
std::vector<SelfTestPart> measure_rates(World& world, const Device& device,
                                        const GemmSettings& gemm, const NcclSettings& nccl,
                                        const RateLimits& limits);

/// The parts of measure_rates, each collective over the world, with a meaning on rank 0 alone.
SelfTestPart measure_gemm_rate(World& world, const DevicePlaces& places, const GemmSettings& gemm,
                               const RateLimits& limits);
SelfTestPart measure_copy_rate(World& world, const DevicePlaces& places, const RateLimits& limits);
SelfTestPart measure_link_rates(World& world, const DevicePlaces& places, const RateLimits& limits);
std::vector<SelfTestPart> measure_collective_rates(World& world, const DevicePlaces& places,
                                                   const NcclSettings& nccl,
                                                   const RateLimits& limits);

}  // namespace commfuse
