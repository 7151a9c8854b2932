// SPDX-License-Identifier: Apache-2.0
// Faults on purpose, for the tests of how runs end: --fault KIND:rank=R[:group=G]. Not in --help.
#pragma once

#include <cstdint>
#include <string_view>

#include "impls/plan.h"

namespace commfuse {

enum class FaultKind : std::uint8_t {
  none,
  kill,     // the rank's process gets SIGKILL
  fail,     // the rank throws
  hang,     // the rank sleeps for ever
  reverse,  // the rank's exchanges of every lane are exchanged in reverse order, after the plans
            // were verified
  lose,     // the rank's first message is never sent, after the plans were verified
  corrupt,  // the rank's last gemm leaves out half of its products
};

struct Fault {
  FaultKind kind = FaultKind::none;
  std::int32_t rank = 0;
  std::int32_t group = 0;  // index of the case group
};

/// Throws UsageError.
Fault parse_fault(std::string_view text);

/// Does what a fault of this rank and group does to the process; nothing for the others.
void strike(const Fault& fault, std::int32_t rank, std::int32_t group);
/// Does what it does to the plan.
void damage(const Fault& fault, std::int32_t rank, std::int32_t group, Plan& plan);

}  // namespace commfuse
