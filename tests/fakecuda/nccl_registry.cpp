// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/nccl_registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/fakecuda/nccl_world.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

using Kind = NcclCall::Kind;

std::size_t offset_in(const NcclBuffer& buffer, const void* data) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(data) -
                                  static_cast<const std::byte*>(buffer.range.data));
}

bool contains(const NcclBuffer& buffer, const Range& range) {
  const auto* const begin = static_cast<const std::byte*>(buffer.range.data);
  const auto* const data = static_cast<const std::byte*>(range.data);
  return data >= begin && data + range.bytes <= begin + buffer.range.bytes;
}

/// The first live one of the communicator that holds the range; null if none does.
const NcclBuffer* holding(const ncclComm& comm, const Range& range) {
  for (const NcclBuffer* buffer : comm.buffers) {
    if (buffer->live && contains(*buffer, range)) return buffer;
  }
  return nullptr;
}

/// Copy engines move and add nothing.
bool can_be_copies(const NcclCall& call) {
  return call.kind == Kind::all_gather || call.kind == Kind::all_to_all;
}

bool in_window(const ncclComm& comm, const Range& range) {
  const NcclBuffer* const buffer = holding(comm, range);
  return buffer != nullptr && buffer->window;
}

}  // namespace

NcclBuffer& add_buffer(ncclComm& comm, const Range& range, std::optional<std::int64_t> window) {
  NcclBuffer& buffer = NcclWorld::current().buffers.emplace_back();
  buffer = {&comm, range, window, true};
  comm.buffers.push_back(&buffer);
  return buffer;
}

ncclResult_t give_back(ncclComm& comm, void* handle, bool window) {
  const auto found =
      std::ranges::find_if(comm.buffers, [&](const NcclBuffer* own) { return own == handle; });
  if (found == comm.buffers.end() || (*found)->window.has_value() != window) {
    return NcclWorld::current().refuse(ncclInvalidArgument, "the handle is not registered");
  }
  if (!(*found)->live) {
    throw Finding(Verdict::Kind::use_after_free,
                  fmt::format("memory of {} is deregistered twice", comm.clique->name));
  }
  (*found)->live = false;
  return ncclSuccess;
}

void check_free(const Range& range) {
  for (const NcclBuffer& buffer : NcclWorld::current().buffers) {
    if (!buffer.live || !overlap(buffer.range, range)) continue;
    throw Finding(Verdict::Kind::use_after_free,
                  fmt::format("memory is freed while it is registered with {} of rank {}",
                              buffer.comm->clique->name, buffer.comm->host));
  }
}

void check_destroy(const ncclComm& comm) {
  if (std::ranges::none_of(comm.buffers, [](const NcclBuffer* buffer) { return buffer->live; })) {
    return;
  }
  throw Finding(
      Verdict::Kind::use_after_free,
      fmt::format("{} is destroyed while memory is registered with it", comm.clique->name));
}

void check_memory(const NcclCall& call) {
  const ncclComm& comm = *call.comm;
  if (comm.settings.cta_policy == NCCL_CTA_POLICY_ZERO && !can_be_copies(call)) {
    throw Finding(Verdict::Kind::host_error,
                  fmt::format("{}: copy engines cannot do {}", comm.clique->name, kernel_of(call)));
  }
  if (comm.buffers.empty()) return;
  for (const Range& range : {read_by(call), written_by(call)}) {
    if (range.bytes == 0 || holding(comm, range) != nullptr) continue;
    throw Finding(Verdict::Kind::host_error,
                  fmt::format("{}: {} uses memory outside all that is registered with it",
                              comm.clique->name, kernel_of(call)));
  }
}

bool in_windows(const NcclCall& call) {
  return in_window(*call.comm, read_by(call)) && in_window(*call.comm, written_by(call));
}

bool by_copy_engines(const NcclCall& call) {
  return can_be_copies(call) && call.comm->settings.cta_policy == NCCL_CTA_POLICY_ZERO &&
         call.comm->clique->ranks > 1 && in_windows(call);
}

std::string reached_place(const NcclCall& call) {
  if (!in_windows(call)) return "";
  const auto place = [&](const Range& range) {
    const NcclBuffer& buffer = *holding(*call.comm, range);
    return fmt::format("window {} + {}", *buffer.window, offset_in(buffer, range.data));
  };
  if (call.kind == Kind::reduce_scatter) return place(read_by(call));
  if (call.kind != Kind::all_reduce) return place(written_by(call));
  return place(read_by(call)) + ", " + place(written_by(call));
}

}  // namespace commfuse::fake
