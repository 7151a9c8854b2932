// SPDX-License-Identifier: Apache-2.0
// What --benchmark_* asks for. Needs no Google Benchmark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace commfuse {

struct BenchmarkRequest {
  std::vector<std::string> flags;  // checked by parse_options
  std::string filter;              // empty: all
  std::string out;                 // file; empty: none
  bool list = false;
  bool wanted =
      false;  // rows instead of the table: a format, a file or how rows look was asked for

  /// Throws UsageError for values that Google Benchmark does not know; it would exit with 0.
  explicit BenchmarkRequest(std::vector<std::string> given);
};

}  // namespace commfuse
