// SPDX-License-Identifier: Apache-2.0
#include "harness/benchmark_output.h"
#include "suite/error.h"

namespace commfuse {

void check_benchmark_output(const BenchmarkRequest& request) {
  if (request.wanted)
    throw UsageError(
        "this commfuse-bench was built without Google Benchmark; only --benchmark_filter and "
        "--benchmark_list_tests work");
}

std::size_t present(const BenchmarkRequest&, std::span<const Record> records) {
  return records.size();
}

}  // namespace commfuse
