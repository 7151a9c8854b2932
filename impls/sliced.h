// SPDX-License-Identifier: Apache-2.0
// The lowering that plain, sliced and bulk share: collectives over parts of a stage.
#pragma once

#include <cstdint>

#include "impls/plan.h"

namespace commfuse {

struct Slicing {
  std::int32_t parts = 1;
  bool features =
      false;  // parts are columns of a last gemm's output instead of rows of every slice
  Lane gather = Lane::gather;
  Lane scatter = Lane::scatter;
  CollectiveVia via = CollectiveVia::standard;  // of collectives over a whole stage
};

/// Collectives use contiguous scratch in part-major order wherever a part's view is strided.
void lower_sliced(const Stage& stage, PlanBuilder& plan, const Slicing& slicing);

/// One collective over the whole gather buffer, in place; nothing for one rank.
void gather_whole(const Gather& gather, const Axis& axis, PlanBuilder& plan, Lane lane,
                  CollectiveVia via = CollectiveVia::standard);
/// One collective of all that the stage's output moves; nothing where it has none. Requires several
/// ranks.
void send_whole(const Stage& stage, PlanBuilder& plan, Lane lane,
                CollectiveVia via = CollectiveVia::standard);

}  // namespace commfuse
