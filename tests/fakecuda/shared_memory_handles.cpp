// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/shared_memory_handles.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace commfuse::fake {
namespace {

constexpr std::array<char, 8> kMagic{'f', 'a', 'k', 'e', 'i', 'p', 'c', '1'};

struct Content {
  std::array<char, 8> magic;
  std::int32_t owner;
  void* base;
};
static_assert(sizeof(Content) <= sizeof(cudaIpcMemHandle_t));

}  // namespace

cudaIpcMemHandle_t encode(const SharedMemoryName& name) {
  const Content content{kMagic, name.owner, name.base};
  cudaIpcMemHandle_t handle{};
  std::memcpy(&handle, &content, sizeof content);
  return handle;
}

SharedMemoryName decode(const cudaIpcMemHandle_t& handle) {
  Content content{};
  std::memcpy(&content, &handle, sizeof content);
  return {content.magic == kMagic, content.owner, content.base};
}

void SharedMemoryHandles::close(Machine& machine, std::int32_t rank, const void* base) {
  const auto found = imports_.find({base, rank});
  if (found == imports_.end() || found->second.count == 0) {
    report_host_error("closes memory that this rank has not opened");
  }
  Import& import = found->second;
  for (const auto& [stream, op] : import.latest) {
    if (machine.known(op)) continue;
    report_host_error(
        fmt::format("closes memory on which {} may still work", machine.describe(op)));
  }
  import.closed = machine.host_work({"cudaIpcCloseMemHandle", {}, {}, 0, {}});
  --import.count;
}

bool SharedMemoryHandles::is_open(std::int32_t rank, const void* base) const {
  const auto found = imports_.find({base, rank});
  return found != imports_.end() && found->second.count > 0;
}

void SharedMemoryHandles::touched(std::int32_t rank, const void* base, StreamId stream, OpId op) {
  imports_[{base, rank}].latest[stream] = op;
}

void SharedMemoryHandles::check_closed(const Machine& machine, const void* base) const {
  for (auto at = imports_.lower_bound({base, 0}); at != imports_.end(); ++at) {
    const auto& [key, import] = *at;
    if (key.first != base) return;
    if (import.count == 0 && machine.known(*import.closed)) continue;
    report_host_error(fmt::format(
        "frees memory that rank {} {}", key.second,
        import.count > 0 ? "still has open" : "closed without a barrier between close and free"));
  }
}

}  // namespace commfuse::fake
