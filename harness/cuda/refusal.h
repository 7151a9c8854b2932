// SPDX-License-Identifier: Apache-2.0
// What one rank refuses is refused by all of them: a rank that left alone would be waited for in
// the next collective step.
#pragma once

#include <string>

#include "harness/executor.h"
#include "harness/world/wire.h"
#include "harness/world/world.h"

namespace commfuse {

/// Collective: throws Unsupported on every rank with the text of the lowest rank that has one.
inline void refuse_alike(World& group, const std::string& own) {
  const std::string reason = first_text(group, own);
  if (!reason.empty()) throw Unsupported(reason);
}

/// Collective: does `action`, which is not. Where it throws Unsupported on a rank, every rank does.
template <class Action>
void do_alike(World& group, const Action& action) {
  std::string reason;
  try {
    action();
  } catch (const Unsupported& error) {
    reason = error.what();
  }
  refuse_alike(group, reason);
}

}  // namespace commfuse
