// SPDX-License-Identifier: Apache-2.0
// A machine as a TOML text: `description`, and numbers that each say where they come from,
//   memory_gb_per_s = { value = 3350, source = "NVIDIA H100 datasheet, SXM", validated = false }
// where `validated` says whether a measurement of this project has confirmed it. All are above 0:
//   bf16_tflops, fp16_tflops, fp32_tflops   dense peaks of one GPU
//   memory_gb_per_s                         of one GPU, 10^9 bytes
//   sms, tile_m, tile_n, gemm_share, attention_share, op_overhead_us   as GpuRates has them
//   link_gb_per_s, link_latency_us          of a GPU within its node, each way
//   ranks_per_node
// and for more than one node, all or none:
//   nics_per_node, nic_gb_per_s, nic_latency_us
// `base` names another machine, of which all that is not given is taken.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "harness/sim/machine_model.h"

namespace commfuse {

/// `place` is what messages begin with: a path, or a name. `base_text` gives the text of the
/// machine that `base` names. Throws UsageError of one line for a text that is no TOML, an unknown
/// or missing key, a number without a source, or one that is not above 0.
MachineModel read_machine(const std::string& place, std::string_view text,
                          const std::function<std::string(std::string_view)>& base_text);
/// Its description; empty if it has none.
std::string description_of(std::string_view text);

}  // namespace commfuse
