// SPDX-License-Identifier: Apache-2.0
// Rates of devices and of the links between them, from bytes and times, and in words beside what
// datasheets say. Plain C++.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/gpu_datasheet.h"

namespace commfuse {

/// 10^9 bytes in a second. `ns` is above 0.
double gb_per_second(std::int64_t bytes, std::int64_t ns);

/// The median over iterations of the longest time of any rank. By rank and iteration; all ranks
/// have the same number, at least one.
std::int64_t median_of_slowest(std::span<const std::vector<std::int64_t>> ns_by_rank);

/// A figure of datasheets that a measured rate can stand beside.
struct DatasheetFigure {
  std::string_view what;  // "of memory bandwidth"
  std::string_view unit;
  double GpuDatasheet::*value;
};
extern const DatasheetFigure kBf16Peak;
extern const DatasheetFigure kMemoryBandwidth;
extern const DatasheetFigure kNvlinkBandwidth;

/// "85 % of memory bandwidth, 4800 GB/s (NVIDIA H200 datasheet, ...)", or why there is no share.
std::string share_text(double rate, const DatasheetFigure& figure, std::string_view device);

/// What one rank measured of its device.
struct DeviceRate {
  std::int32_t rank = 0;
  std::string device;
  double rate = 0;
};
/// "4102.1 to 4210.3 GB/s on 8 devices, least that of rank 3: 85 % of ...". At least one.
std::string device_rates_text(std::span<const DeviceRate> rates, const DatasheetFigure& figure);

/// From the memory of one rank to another's, in one direction.
struct LinkRate {
  std::int32_t from = 0;
  std::int32_t to = 0;
  double gb_per_s = 0;
};
/// "least 180.1 GB/s (rank 0 to 3), median 390.2, most 401.0 GB/s: ...". `device` is that of the
/// rank that the slowest link starts from. At least one.
std::string link_rates_text(std::vector<LinkRate> rates, std::span<const std::string> devices);

/// "algbw 120.1 GB/s, busbw 105.1 GB/s", as nccl-tests has them: `array_bytes` counts the array of
/// all ranks, the factor is that of the collective.
std::string collective_text(std::string_view collective, std::int64_t array_bytes, std::int64_t ns,
                            std::int32_t ranks);

/// "256 MiB", or with decimals or bytes where it is no whole number of them.
std::string mib_text(std::int64_t bytes);

}  // namespace commfuse
