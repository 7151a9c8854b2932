// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <set>
#include <string>

#include "harness/link_request.h"
#include "harness/option_values.h"
#include "harness/sim/machine_model.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::string_view kPrefix = "ideal:";

class ConstantRate final : public ComputeModel {
 public:
  explicit ConstantRate(double flops_per_second) : flops_per_second_(flops_per_second) {}
  [[nodiscard]] Picoseconds time(const Compute& op,
                                 std::span<const Tensor> /*tensors*/) const override {
    return picoseconds(static_cast<double>(flops(op)) / flops_per_second_);
  }

 private:
  double flops_per_second_;
};

LinkRequest link_of(std::string_view machine, const std::string& link) {
  try {
    return parse_link(link);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--machine {}: {}", machine, error.what()));
  }
}

}  // namespace

MachineModel ideal_machine(std::string_view text) {
  if (!text.starts_with(kPrefix)) {
    throw UsageError(
        fmt::format("an ideal machine is ideal:flops=700T,link=400GB/s,latency=3us, "
                    "got '{}'",
                    text));
  }
  double flops_per_second = 0;
  std::string bandwidth, latency = "0us";
  std::set<std::string> said;
  for (const std::string& item : split(text.substr(kPrefix.size()), ',')) {
    const std::size_t sign = item.find('=');
    const std::string key = item.substr(0, sign);
    if (!said.insert(key).second) {
      throw UsageError(fmt::format("{} of an ideal machine is stated twice", key));
    }
    const std::string value = sign == std::string::npos ? "" : item.substr(sign + 1);
    if (key == "flops") {
      flops_per_second = parse_quantity(value, {{"T", 1e12}, {"G", 1e9}, {"P", 1e15}},
                                        "flops of an ideal machine");
    } else if (key == "link") {
      bandwidth = value;
    } else if (key == "latency") {
      latency = value;
    } else {
      throw UsageError(fmt::format("an ideal machine has flops, link and latency, not '{}'", item));
    }
  }
  if (flops_per_second <= 0) throw UsageError("an ideal machine needs flops above 0: flops=700T");
  if (bandwidth.empty()) throw UsageError("an ideal machine needs a link: link=400GB/s");
  const LinkRequest link = link_of(text, bandwidth + "," + latency);
  MachineModel machine;
  machine.name = text;
  machine.network.inner = {link.bytes_per_second, link.latency_seconds};
  machine.network.algorithm = CollectiveAlgorithm::pairwise;
  machine.compute = std::make_shared<ConstantRate>(flops_per_second);
  machine.peak_flops_per_second.fill(flops_per_second);
  machine.sources = {"as stated in its name"};
  return machine;
}

}  // namespace commfuse
