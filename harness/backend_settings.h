// SPDX-License-Identifier: Apache-2.0
// What the command line says about a backend of devices. The same for every schedule under
// comparison and, but for `profile`, part of a case's name.
#pragma once

#include <cstdint>
#include <string>

namespace commfuse {

struct BackendSettings {
  std::int32_t ctas_per_peer = 2;  // of an NCCL exchange
  std::int32_t spared_sms = 0;     // SMs that gemms leave free
  bool deterministic = false;      // no split-K
  bool tf32 = false;               // fp32 is multiplied in tf32
  bool graph = false;              // iterations are replays of a captured graph
  bool profile = true;             // trace iterations beside the samples; no part of the name

  /// "ctas=2,spared_sms=0,gemm=default,issue=calls"
  [[nodiscard]] std::string text() const {
    std::string gemm = deterministic ? "deterministic" : "";
    if (tf32) gemm += gemm.empty() ? "tf32" : "+tf32";
    return "ctas=" + std::to_string(ctas_per_peer) + ",spared_sms=" + std::to_string(spared_sms) +
           ",gemm=" + (gemm.empty() ? "default" : gemm) + ",issue=" + (graph ? "graph" : "calls");
  }
};

}  // namespace commfuse
