// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/metrics.h"
#include "harness/record/statistics.h"

namespace commfuse {

const DatasheetFigure kBf16Peak{"of the dense bf16 peak", "TFLOP/s", &GpuDatasheet::bf16_tflops};
const DatasheetFigure kMemoryBandwidth{"of memory bandwidth", "GB/s",
                                       &GpuDatasheet::memory_gb_per_s};
const DatasheetFigure kNvlinkBandwidth{"of NVLink each way", "GB/s",
                                       &GpuDatasheet::nvlink_gb_per_s};

double gb_per_second(std::int64_t bytes, std::int64_t ns) {
  return static_cast<double>(bytes) / static_cast<double>(ns);
}

std::int64_t median_of_slowest(std::span<const std::vector<std::int64_t>> ns_by_rank) {
  std::vector<double> slowest(ns_by_rank.front().size(), 0);
  for (const std::vector<std::int64_t>& times : ns_by_rank) {
    for (std::size_t i = 0; i < slowest.size(); ++i) {
      slowest[i] = std::max(slowest[i], static_cast<double>(times.at(i)));
    }
  }
  return static_cast<std::int64_t>(median(slowest));
}

std::string share_text(double rate, const DatasheetFigure& figure, std::string_view device) {
  const GpuDatasheet* const datasheet = datasheet_of(device);
  if (datasheet == nullptr) return fmt::format("no datasheet of '{}' is known here", device);
  const double most = datasheet->*figure.value;
  if (most == 0)
    return fmt::format("no figure {} in its datasheet ({})", figure.what, datasheet->source);
  const bool bridge = figure.value == &GpuDatasheet::nvlink_gb_per_s && datasheet->nvlink_by_bridge;
  return fmt::format("{:.0f} % {}{}, {:g} {} ({}){}", 100 * rate / most, figure.what,
                     bridge ? " by a bridge" : "", most, figure.unit, datasheet->source,
                     rate > most ? "; above 100 %: do not trust one of them" : "");
}

std::string device_rates_text(std::span<const DeviceRate> rates, const DatasheetFigure& figure) {
  const auto [least, most] = std::ranges::minmax_element(rates, {}, &DeviceRate::rate);
  const std::string share = share_text(least->rate, figure, least->device);
  if (rates.size() == 1) return fmt::format("{:.1f} {}, {}", least->rate, figure.unit, share);
  return fmt::format("{:.1f} to {:.1f} {} on {} devices, least that of rank {}: {}", least->rate,
                     most->rate, figure.unit, rates.size(), least->rank, share);
}

std::string link_rates_text(std::vector<LinkRate> rates, std::span<const std::string> devices) {
  std::ranges::stable_sort(rates, {}, &LinkRate::gb_per_s);
  const LinkRate& slowest = rates.front();
  std::vector<double> values;
  for (const LinkRate& rate : rates) values.push_back(rate.gb_per_s);
  return fmt::format("least {:.1f} GB/s (rank {} to {}), median {:.1f}, most {:.1f} GB/s: {}",
                     slowest.gb_per_s, slowest.from, slowest.to, median(values),
                     rates.back().gb_per_s,
                     share_text(slowest.gb_per_s, kNvlinkBandwidth,
                                devices[static_cast<std::size_t>(slowest.from)]));
}

std::string collective_text(std::string_view collective, std::int64_t array_bytes, std::int64_t ns,
                            std::int32_t ranks) {
  const double algorithm = algbw(array_bytes, static_cast<double>(ns)) / 1e9;
  return fmt::format("algbw {:.1f} GB/s, busbw {:.1f} GB/s", algorithm,
                     algorithm * busbw_factor(collective, ranks));
}

std::string mib_text(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  return bytes < kMiB ? fmt::format("{} bytes", bytes)
                      : fmt::format("{:g} MiB", static_cast<double>(bytes) / kMiB);
}

}  // namespace commfuse
