// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/pending_waits.h"

#include <fmt/format.h>

namespace commfuse::fake {

void PendingWaits::check(const Machine& machine, Context context, std::string_view call) const {
  const auto waits = waits_.find(context);
  if (waits == waits_.end()) return;
  for (const OpId wait : waits->second) {
    if (machine.known(wait)) continue;
    throw Finding(Verdict::Kind::host_error,
                  fmt::format("{} may synchronise the device while {} may be pending", call,
                              machine.describe(wait)));
  }
}

}  // namespace commfuse::fake
