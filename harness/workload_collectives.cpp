// SPDX-License-Identifier: Apache-2.0
#include "harness/workload_collectives.h"

#include "impls/plan.h"

namespace commfuse {

std::vector<CollectiveBytes> collectives_of(const Workload& workload) {
  std::vector<CollectiveBytes> collectives;
  const auto add = [&](CollectiveKind kind, TensorId array) {
    collectives.push_back({std::string(name_of(kind)), workload.tensors[array].bytes()});
  };
  for (const Stage& stage : workload.stages) {
    if (stage.gather) add(CollectiveKind::all_gather, stage.gather->buffer);
    if (stage.reduce_scatter) add(CollectiveKind::reduce_scatter, stage.reduce_scatter->partial);
    if (stage.all_to_all) add(CollectiveKind::all_to_all, stage.all_to_all->send);
    if (stage.all_reduce) add(CollectiveKind::all_reduce, stage.all_reduce->partial);
  }
  return collectives;
}

}  // namespace commfuse
