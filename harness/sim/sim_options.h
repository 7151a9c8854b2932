// SPDX-License-Identifier: Apache-2.0
// The command line of commfuse-sim as a value.
#pragma once

#include <string>
#include <vector>

#include "harness/link_request.h"
#include "harness/output_options.h"
#include "harness/selection_options.h"
#include "harness/sim/event_graph.h"

namespace commfuse {

struct SimOptions : Selection, Output {
  std::string machine;
  std::string costs;  // a file of op times; may be empty
  Protocol protocol = Protocol::put;
  std::vector<LinkRequest> links;  // empty: the machine's own
  std::string filter;              // of the names of cases; may be empty
  bool tune = false;               // all schedules, ranked
};

/// Throws UsageError with one clear line.
SimOptions parse_sim_options(std::vector<std::string> arguments);
std::string sim_help_text();
std::string sim_version_text();

}  // namespace commfuse
