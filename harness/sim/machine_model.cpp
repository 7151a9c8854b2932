// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/machine_model.h"

#include <fmt/format.h>

#include "suite/error.h"

namespace commfuse {

MachineModel find_machine(std::string_view text) {
  if (text.starts_with("ideal")) return ideal_machine(text);
  throw UsageError(fmt::format(
      "unknown machine '{}'; there is: ideal:flops=700T,link=400GB/s,latency=3us", text));
}

}  // namespace commfuse
