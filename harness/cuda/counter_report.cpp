// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/counter_report.h"

#include <fmt/format.h>

#include <cstring>

#include "harness/cuda/cuda_resources.h"
#include "harness/world/clock.h"

namespace commfuse {
namespace {

constexpr std::int64_t kReadNs = 333'000'000;
constexpr std::size_t kMostLines = 24;

std::byte* pinned(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  CFB_CUDA(cudaMallocHost(&memory, bytes));
  return static_cast<std::byte*>(memory);
}

}  // namespace

void CounterSnapshot::Free::operator()(std::byte* memory) const { cudaFreeHost(memory); }

CounterSnapshot::CounterSnapshot(std::size_t bytes) : memory_(pinned(bytes)), bytes_(bytes) {}

// A stream of its own, made here: another one would wait, and one more from the beginning would
// take a queue of the device from those that are measured.
std::span<const std::byte> CounterSnapshot::take(const std::byte* counters) {
  if (bytes_ == 0) return {};
  const Stream stream(0);
  CFB_CUDA(cudaMemcpyAsync(memory_.get(), counters, bytes_, cudaMemcpyDeviceToHost, stream));
  const std::int64_t end_ns = monotonic_ns() + kReadNs;
  while (cudaStreamQuery(stream) != cudaSuccess) {
    cudaGetLastError();
    if (monotonic_ns() > end_ns) return {};
  }
  return {memory_.get(), bytes_};
}

std::string behind(std::span<const std::byte> snapshot, std::span<const AwaitedCounter> awaited,
                   const CounterProtocol& protocol, Epoch epoch) {
  std::string lines;
  std::size_t count = 0;
  for (const AwaitedCounter& counter : awaited) {
    std::uint32_t value = 0;
    std::memcpy(&value, snapshot.data() + counter.offset, sizeof value);
    if (protocol.reached(value, epoch) || ++count > kMostLines) continue;
    lines += fmt::format("  {}: {} wanted, {} there\n", counter.text, protocol.value(epoch), value);
  }
  if (count > kMostLines) lines += fmt::format("  and {} more\n", count - kMostLines);
  return lines;
}

}  // namespace commfuse
