// SPDX-License-Identifier: Apache-2.0
// plain: one blocking collective on the compute lane, one whole compute op.
//
//   gather           compute  [   all_gather   ][      c      ]
//   any output       compute  [      c      ][ reduce_scatter, all_to_all or all_reduce ]
//
// Hides nothing. `collective` says how the transport's library is asked for the collective, so that
// a comparison holds the best that the library can do; the plan is the same but for that.
#include <fmt/format.h>

#include <algorithm>

#include "impls/implementation.h"
#include "impls/sliced.h"

namespace commfuse {

Implementation make_plain(const Parameters& parameters, const Workload& /*workload*/) {
  const std::string_view asked = value_of(parameters, "collective", "default");
  const CollectiveVia via =
      *std::ranges::find(kCollectiveVia, asked, [](CollectiveVia value) { return name_of(value); });
  Implementation made;
  made.name = via == CollectiveVia::standard ? "plain" : fmt::format("plain:collective={}", asked);
  made.via = via;
  made.lower = [via](const Stage& stage, PlanBuilder& plan) {
    lower_sliced(stage, plan, {.gather = Lane::compute, .scatter = Lane::compute, .via = via});
  };
  made.unsupported = [](const Stage&) { return std::string{}; };
  return made;
}

}  // namespace commfuse
