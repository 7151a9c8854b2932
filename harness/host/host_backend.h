// SPDX-License-Identifier: Apache-2.0
// The host backend: BLAS on the rank's thread, transports by name.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "harness/backend.h"
#include "harness/host/transport.h"

namespace commfuse {

/// Collective over the group.
using TransportFactory = std::function<std::unique_ptr<Transport>(World& group)>;

class HostBackend final : public Backend {
 public:
  using Transports = std::map<std::string, TransportFactory, std::less<>>;
  /// `paced` is always there; `others` are what this build has beside it.
  explicit HostBackend(Transports others);

  [[nodiscard]] std::string_view name() const override { return "host"; }
  std::unique_ptr<Executor> executor(World& group, const Workload& workload,
                                     std::string_view transport) override;
  [[nodiscard]] std::int64_t cache_bytes() const override;
  [[nodiscard]] std::int64_t available_bytes() const override;
  [[nodiscard]] OpTiming op_timing() const override { return OpTiming::together; }
  [[nodiscard]] std::map<std::string, std::string> libraries() const override;
  double measured_peak() override;

 private:
  Transports transports_;
};

}  // namespace commfuse
