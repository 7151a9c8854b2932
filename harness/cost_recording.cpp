// SPDX-License-Identifier: Apache-2.0
#include "harness/cost_recording.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/plan_spans.h"
#include "harness/record/statistics.h"
#include "suite/error.h"

namespace commfuse {
namespace {

using Json = nlohmann::ordered_json;

/// Linear between order statistics, as statistics.h has it, but of few samples too.
double quartile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Json without_host(Json machine) {
  machine.erase("host");
  return machine;
}

}  // namespace

void append_op_times(const Timeline& timeline, std::vector<OpTime>& times) {
  for (const Span& span : timeline.spans) {
    if (span.kind != SpanKind::transfer) times.push_back({span.op, compute_ns(span)});
  }
}

OpCost cost_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const double middle = median(samples);
  const double range = quartile(samples, 0.75) - quartile(samples, 0.25);
  return {middle, static_cast<std::int64_t>(samples.size()), middle > 0 ? range / middle : 0};
}

void CostRecording::open() {
  std::error_code unknown;
  if (std::filesystem::exists(path_, unknown)) {
    if (!resume_) {
      throw UsageError(
          fmt::format("{} exists; name another file, or add to it with --resume", path_.string()));
    }
    before_ = read_costs(path_);
  }
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  if (access(folder.c_str(), W_OK) != 0 || (before_ && access(path_.c_str(), W_OK) != 0)) {
    throw UsageError(fmt::format("{} cannot be written: {}", path_.string(), std::strerror(errno)));
  }
}

void CostRecording::describe(const Json& machine, const std::string& clock) {
  machine_ = machine;
  clock_ = clock;
  if (!before_) return;
  if (before_->clock != clock) {
    throw UsageError(fmt::format("{} has times by {}, these would be {}", path_.string(),
                                 before_->clock, clock));
  }
  if (without_host(before_->machine) != without_host(machine)) {
    throw UsageError(fmt::format("{} has times of another machine: {}, this is {}", path_.string(),
                                 before_->machine.dump(), machine.dump()));
  }
}

void CostRecording::add(const Plan& plan, std::span<const OpTime> times,
                        std::string_view transport) {
  const auto key = [&](const Op& op) {
    if (const auto compute = compute_of(op)) return key_of(*compute, plan.tensors);
    return key_of(std::get<Collective>(op.work), plan.ranks, plan.tensors, transport);
  };
  std::vector<std::vector<double>*> samples(plan.ops.size(), nullptr);
  for (const OpTime& time : times) {
    std::vector<double>*& of_op = samples.at(time.op);
    if (of_op == nullptr) {
      of_op = &samples_[key(plan.ops[time.op])];
    }
    of_op->push_back(static_cast<double>(std::max<std::int64_t>(time.ns, 0)));
  }
}

void CostRecording::gather(World& world) {
  Json mine = Json::array();
  for (const auto& [key, samples] : samples_) {
    mine.push_back({key.kind, key.how, key.sizes, samples});
  }
  samples_.clear();
  const std::vector<std::uint8_t> packed = Json::to_cbor(mine);
  for (const auto& theirs : world.gather(std::as_bytes(std::span(packed)), 0)) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(theirs.data());
    for (const Json& entry : Json::from_cbor(first, first + theirs.size())) {
      const auto sizes = entry[2].get<std::array<std::int64_t, 3>>();
      auto& all = gathered_[{entry[0].get<std::string>(), entry[1].get<std::string>(), sizes}];
      for (const Json& sample : entry[3]) all.push_back(sample.get<double>());
    }
  }
}

void CostRecording::write(const std::string& time, const std::string& commit) const {
  if (gathered_.empty()) return;
  CostFile file = before_.value_or(CostFile{});
  file.machine = machine_;
  file.clock = clock_;
  file.time = time;
  file.commit = commit;
  for (const auto& [key, samples] : gathered_) file.costs[key] = cost_of(samples);
  write_costs(path_, file);
}

}  // namespace commfuse
