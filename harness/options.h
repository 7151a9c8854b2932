// SPDX-License-Identifier: Apache-2.0
// The command line of commfuse-bench as a value. Each option is declared once, in options.cpp:
// name, field, check and help.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/backend_settings.h"
#include "harness/executor.h"
#include "harness/link_request.h"
#include "harness/output_options.h"
#include "harness/selection_options.h"

namespace commfuse {

struct Options : Selection, Output {
  // how
  std::string backend = "host";
  BackendSettings settings;        // of a backend of devices
  std::string transport;           // empty: the backend's own choice
  std::vector<LinkRequest> links;  // empty: auto:0.4 on paced
  bool replay = false;             // simulated time with measured compute
  std::int32_t threads = 0;        // 0: ranks are MPI processes, or this process alone
  // measure
  Mode mode = Mode::isolated;
  bool rotate_cache = false;     // sets of buffers take turns, beyond the cache
  std::int32_t repetitions = 0;  // 0: at least 10, until the median is known to 1 %
  std::int32_t iterations = 1;   // per repetition
  std::int32_t warmup = 1;
  double time_limit_s = 60;  // wall time of sampling, per case group
  double timeout_s = 120;    // watchdog, per phase
  std::uint64_t seed = 1;
  double peak_tflops = 0;  // of one rank, as the user knows it; 0: not given
  bool check_only = false;
  bool strict_env = false;  // what makes times doubtful ends the run before anything is timed
  bool self_test = false;   // cases of its own, see self_test.h; implies check_only
  // output
  std::vector<std::string>
      benchmark_flags;       // --benchmark_*, checked; for Google Benchmark on rank 0
  std::string record_costs;  // a file of op times, for commfuse-sim --costs; may be empty
  std::string fault;         // testing only: "kill:rank=1", see fault.h
  std::string command_line;  // the arguments, as given
};

/// Throws UsageError with one clear line.
Options parse_options(std::vector<std::string> arguments);
std::string help_text();
std::string version_text();

}  // namespace commfuse
