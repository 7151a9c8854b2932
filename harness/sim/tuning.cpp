// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "impls/implementation.h"
#include "suite/error.h"

namespace commfuse {
namespace {

std::vector<std::string> all_specs(std::int32_t most_parts) {
  std::vector<std::string> specs{"plain", "bulk"};
  for (std::int32_t n = 2; n <= most_parts; n *= 2) {
    for (const char* axis : {"tokens", "features"}) {
      specs.push_back(fmt::format("sliced:n={}:axis={}", n, axis));
    }
  }
  for (std::int32_t m = 1; m <= most_parts; m *= 2) {
    for (const char* accumulate : {"epilogue", "add", "once"}) {
      for (const char* order : {"ring", "direct"}) {
        specs.push_back(fmt::format("commfuse:order={}:m={}:accumulate={}", order, m, accumulate));
      }
    }
  }
  return specs;
}

/// Its resolved name; nothing where the workload cannot be scheduled like that.
std::optional<std::string> resolved(const std::string& spec, const Workload& workload) {
  try {
    const Implementation made = make_implementation(spec, workload);
    if (unsupported(made, workload).empty()) return made.name;
  } catch (const UsageError&) {
    // Settings that contradict each other.
  }
  return std::nullopt;
}

std::optional<double> metric_of(const Record& record, const char* name) {
  const auto found = record.metrics.find(name);
  if (record.outcome != Outcome::ok || found == record.metrics.end()) return std::nullopt;
  return found->second.value;
}

bool is_bound(const Record& record) {
  return record.impl == "compute_only" || record.impl == "comm_only";
}

bool is_plain(const Record& record) { return record.impl.starts_with("plain"); }

const Record* fastest(std::span<const Record> records, bool (*wanted)(const Record&)) {
  const Record* best = nullptr;
  for (const Record& record : records) {
    const auto time = metric_of(record, "time");
    if (!time || is_bound(record) || !wanted(record)) continue;
    if (best == nullptr || *time < *metric_of(*best, "time")) best = &record;
  }
  return best;
}

std::string duration(double ns) {
  if (ns >= 1e6) return fmt::format("{:.3f} ms", ns / 1e6);
  return fmt::format("{:.2f} us", ns / 1e3);
}

/// ", 1.2 % above the bound of 687.19 us".
std::string margin(const Record& record) {
  const auto distance = metric_of(record, "distance");
  const auto bound = metric_of(record, "bound");
  if (!distance || !bound) return "";
  return fmt::format(", {:.1f} % above the bound of {}", 100 * (*distance - 1), duration(*bound));
}

/// What communication costs there at most: where nothing is hidden.
std::string share_of_communication(const Record& plain) {
  const auto exposed = metric_of(plain, "exposed_share");
  return exposed ? fmt::format("; communication that nothing hides is {:.1f} % of the compute",
                               100 * *exposed)
                 : "";
}

}  // namespace

std::vector<std::string> tuning_specs(const Workload& workload, std::int32_t most_parts) {
  std::vector<std::string> specs;
  std::set<std::string> seen;
  for (const std::string& spec : all_specs(most_parts)) {
    const auto name = resolved(spec, workload);
    if (name && seen.insert(*name).second) specs.push_back(*name);
  }
  return specs;
}

void rank_by_time(std::vector<Record>& records) {
  const auto place = [](const Record& record) {
    const auto time = metric_of(record, "time");
    const int part = is_bound(record) ? 0 : time ? 1 : 2;
    return std::tuple(part, part == 1 ? *time : 0.0);
  };
  std::ranges::stable_sort(records, {}, place);
}

std::string tuning_verdict(std::span<const Record> records) {
  const Record* best = fastest(records, [](const Record&) { return true; });
  if (best == nullptr) return "";
  const double time = *metric_of(*best, "time");
  const Record* plain = fastest(records, &is_plain);
  if (plain == nullptr) {
    return fmt::format("fastest: {}, {}{}.", best->impl, duration(time), margin(*best));
  }
  const double plain_time = *metric_of(*plain, "time");
  if (plain_time - time < kLeastGain * plain_time) {
    return fmt::format(
        "overlap does not pay: plain takes {}{}, and the fastest schedule, {}, "
        "is {:.1f} % faster{}.",
        duration(plain_time), margin(*plain), best->impl, 100 * (1 - time / plain_time),
        share_of_communication(*plain));
  }
  return fmt::format("fastest: {}, {}, {:.2f} x plain{}.", best->impl, duration(time),
                     plain_time / time, margin(*best));
}

}  // namespace commfuse
