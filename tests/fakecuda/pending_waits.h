// SPDX-License-Identifier: Apache-2.0
// The rule that nothing may synchronise a device while a stream may wait for a value on it: such a
// call would wait for a peer that may wait for this host. What may synchronise: allocating and
// freeing memory, creating streams, and the first launch of a kernel, which loads it.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "tests/fakecuda/machine.h"

namespace commfuse::fake {

/// A device as one process sees it.
using Context = std::int32_t;

class PendingWaits {
 public:
  /// A wait for a value was enqueued on the context.
  void add(Context context, OpId wait) { waits_[context].push_back(wait); }

  /// Throws Finding that names the call and a wait of the context, unless the calling host thread
  /// knows that all waits are over: by synchronising, by a query that said yes, or by a barrier
  /// with somebody who knows.
  void check(const Machine& machine, Context context, std::string_view call) const;

 private:
  std::map<Context, std::vector<OpId>> waits_;
};

}  // namespace commfuse::fake
