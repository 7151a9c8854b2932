// SPDX-License-Identifier: Apache-2.0
#include "harness/benchmark_output.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/world/say.h"
#include "suite/error.h"

namespace commfuse {
namespace {

void register_row(const Record& record) {
  const std::vector<double> samples = record.samples.max_over_ranks;
  auto next = std::make_shared<std::size_t>(0);
  auto* row =
      benchmark::RegisterBenchmark(record.id.c_str(), [samples, next](benchmark::State& state) {
        for (auto unused : state) {
          static_cast<void>(unused);
          state.SetIterationTime(samples[(*next)++ % samples.size()] * 1e-9);
        }
      });
  row->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

/// Google Benchmark tells nobody that its file could not be written; cut off, it is no JSON.
void require_written(const std::string& path) {
  if (path.empty()) return;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const bool any = file && file.tellg() > 0;
  if (any) file.seekg(-1, std::ios::end);
  if (!any || file.get() != '\n') {
    throw std::runtime_error(fmt::format("--benchmark_out {} was not written whole", path));
  }
}

}  // namespace

void check_benchmark_output(const BenchmarkRequest& request) {
  const std::string& path = request.out;
  if (path.empty()) return;
  if (std::filesystem::exists(path))
    throw UsageError(fmt::format("--benchmark_out {} exists already; name another file", path));
  const bool writable = std::ofstream(path).good();
  std::error_code ignored;
  std::filesystem::remove(path,
                          ignored);  // an empty file breaks readers, should nothing come of it
  if (!writable) throw UsageError(fmt::format("--benchmark_out {} cannot be written", path));
}

std::size_t present(const BenchmarkRequest& request, std::span<const Record> records) {
  std::size_t fewest = 0;
  std::size_t most = 0;
  std::size_t shown = 0;
  for (const Record& record : records) {
    if (record.outcome != Outcome::ok || record.samples.max_over_ranks.empty()) continue;
    const std::size_t count = record.samples.max_over_ranks.size();
    fewest = shown == 0 ? count : std::min(fewest, count);
    most = std::max(most, count);
    register_row(record);
    ++shown;
  }
  if (shown == 0) return records.size();
  std::vector<std::string> arguments{"commfuse-bench",
                                     fmt::format("--benchmark_repetitions={}", fewest)};
  // The filter has chosen the cases already; names carry suffixes now that it should not see.
  for (const std::string& flag : request.flags) {
    if (!flag.starts_with("--benchmark_filter")) arguments.push_back(flag);
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  require_written(request.out);
  if (most > fewest) {
    say(
        fmt::format("benchmark rows have {} repetitions each, as many as the case with the fewest; "
                    "records have up to {}",
                    fewest, most));
  }
  return records.size() - shown;
}

}  // namespace commfuse
