// SPDX-License-Identifier: Apache-2.0
// plain: one blocking collective on the compute lane, one whole compute op.
//
//   gather           compute  [   all_gather   ][      c      ]
//   reduce_scatter   compute  [      c      ][ reduce_scatter ]
//
// Hides nothing.
#include "impls/implementation.h"
#include "impls/sliced.h"

namespace commfuse {

Implementation make_plain(const Parameters& /*none*/, const Workload& /*workload*/) {
  Implementation made;
  made.name = "plain";
  made.lower = [](const Stage& stage, PlanBuilder& plan) {
    lower_sliced(stage, plan, {.gather = Lane::compute, .scatter = Lane::compute});
  };
  made.unsupported = [](const Stage&) { return std::string{}; };
  return made;
}

}  // namespace commfuse
