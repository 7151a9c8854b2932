// SPDX-License-Identifier: Apache-2.0
#include "harness/layer_counts.h"

#include <algorithm>

#include "suite/flops.h"

namespace commfuse {
namespace {

/// 0 for a shape that is of no preset.
std::int32_t layers_of_preset(std::string_view model) {
  const auto names = preset_names();
  const bool known = std::ranges::find(names, model) != names.end();
  return known ? preset(model).layers : 0;
}

}  // namespace

std::optional<LayerCounts> layer_counts_of(const Workload& workload) {
  if (!workload.layer) return std::nullopt;
  const CountedFlops layer = layer_flops(workload.shape, *workload.layer).total();
  const auto per_rank = [&](std::int64_t flops) {
    return static_cast<double>(flops) / workload.ranks;
  };
  LayerCounts counts;
  counts.tokens = workload.shape.tokens;
  counts.shares = {
      {"mfu", static_cast<double>(workload.model_flops),
       "needed: of attention the pairs that the mask shows, backward twice forward"},
      {"hfu", static_cast<double>(workload.hardware_flops),
       "executed: with what is computed a second time"},
      {"mfu_palm", per_rank(layer.palm),
       "PaLM, arXiv 2204.02311, appendix B: 6N + 12LHQT a token, all pairs of attention whatever "
       "the mask"},
      {"mfu_megatron", per_rank(layer.megatron),
       "Megatron-LM, num_floating_point_operations at commit 001b00c: half of all pairs whatever "
       "the mask"}};
  counts.model_layers = layers_of_preset(workload.shape.model);
  if (counts.model_layers > 0) counts.model = workload.shape.model;
  return counts;
}

}  // namespace commfuse
