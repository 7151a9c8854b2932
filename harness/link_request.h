// SPDX-License-Identifier: Apache-2.0
// The link that --link asks for.
#pragma once

#include <string>
#include <string_view>

namespace commfuse {

/// `auto_ratio` > 0: latency 0 and the bandwidth at which all collectives of the workload, one
/// after the other, take auto_ratio times compute_only. Otherwise bytes per second (0: unlimited)
/// and seconds per message.
struct LinkRequest {
  std::string text;  // as given
  double auto_ratio = 0;
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

/// "2GB/s,20us", "auto:0.4", "unlimited". Throws UsageError.
LinkRequest parse_link(std::string_view text);

}  // namespace commfuse
