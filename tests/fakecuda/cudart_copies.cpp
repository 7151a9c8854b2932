// SPDX-License-Identifier: Apache-2.0
// Copies and fills. Host memory is not simulated: only the device side of a copy is declared, and
// when the host side is read or written follows "API synchronization behavior" of the runtime's
// manual:
//   pageable host -> device   the bytes are taken at the call; nothing waits for their arrival
//   pinned host -> device     the bytes are taken when the stream gets there
//   device -> pageable host   the call returns once the bytes are there, also the Async one
//   device -> pinned host     written when the stream gets there
//   device -> device, memset  nothing waits, also in the calls without a stream
// Calls without a stream use one of their own, and wait for it where the host side needs it.
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/fakecuda/cudart_call.h"
#include "tests/fakecuda/stream_operations.h"

namespace {

using commfuse::fake::Activity;
using commfuse::fake::cudart_call;
using commfuse::fake::FakeRuntime;
using commfuse::fake::Finding;
using commfuse::fake::Machine;
using commfuse::fake::Range;
using commfuse::fake::StreamRef;
using commfuse::fake::Submission;
using commfuse::fake::submit;
using commfuse::fake::Verdict;
using commfuse::fake::Work;

constexpr std::int64_t kLatencyNs = 1000;
constexpr std::int64_t kBytesPerNs = 100;

/// Rows of bytes; a copy of one piece is one row.
struct Copy {
  std::byte* to = nullptr;
  std::size_t to_pitch = 0;
  const std::byte* from = nullptr;
  std::size_t from_pitch = 0;
  std::size_t width = 0;
  std::size_t rows = 1;
  cudaMemcpyKind kind = cudaMemcpyDefault;
};

Copy flat(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return {static_cast<std::byte*>(to),
          bytes,
          static_cast<const std::byte*>(from),
          bytes,
          bytes,
          1,
          kind};
}

Copy pitched(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
             std::size_t width, std::size_t rows, cudaMemcpyKind kind) {
  const bool in_one_piece = to_pitch == width && from_pitch == width;
  if (in_one_piece) return flat(to, from, width * rows, kind);
  return {static_cast<std::byte*>(to),
          to_pitch,
          static_cast<const std::byte*>(from),
          from_pitch,
          width,
          rows,
          kind};
}

std::vector<Range> ranges(const std::byte* first, std::size_t pitch, const Copy& copy) {
  std::vector<Range> all;
  for (std::size_t row = 0; row < copy.rows; ++row)
    all.push_back({first + row * pitch, copy.width});
  return all;
}

struct Sides {
  bool from_device = false;
  bool to_device = false;
};

Sides sides(const Machine& machine, const Copy& copy) {
  const Sides there{machine.is_allocated({copy.from, 1}), machine.is_allocated({copy.to, 1})};
  if (copy.kind == cudaMemcpyDefault) return there;
  const bool from_device =
      copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
  const bool to_device =
      copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
  if (from_device != there.from_device || to_device != there.to_device) {
    throw Finding(Verdict::Kind::host_error, "the kind of the copy is not that of its addresses");
  }
  return there;
}

Activity activity(const FakeRuntime& runtime, const Sides& side, const Copy& copy) {
  if (!side.from_device || !side.to_device) return Activity::copy_with_host;
  const auto* from = runtime.allocation(copy.from);
  const auto* to = runtime.allocation(copy.to);
  const bool elsewhere =
      from != nullptr && to != nullptr && from->second.device != to->second.device;
  return elsewhere ? Activity::copy_between_devices : Activity::copy_within_device;
}

bool is_pinned(const FakeRuntime& runtime, const std::byte* first, std::size_t pitch,
               const Copy& copy) {
  return runtime.is_pinned({first, (copy.rows - 1) * pitch + copy.width});
}

void copy_rows(const Copy& copy) {
  for (std::size_t row = 0; row < copy.rows; ++row) {
    std::memmove(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.width);
  }
}

/// Copies the source now, into memory that the returned function keeps.
std::function<void()> staged(const Copy& copy) {
  auto bytes = std::make_shared<std::vector<std::byte>>(copy.width * copy.rows);
  Copy in = copy;
  in.to = bytes->data();
  in.to_pitch = copy.width;
  copy_rows(in);
  Copy out = copy;
  out.from = bytes->data();
  out.from_pitch = copy.width;
  return [out, bytes] { copy_rows(out); };
}

enum class Mode : std::uint8_t { synchronous, asynchronous };

cudaError_t enqueue(FakeRuntime& runtime, Machine& machine, StreamRef stream, const Copy& copy,
                    Mode mode) {
  if (copy.width > copy.to_pitch || copy.width > copy.from_pitch) {
    return cudaErrorInvalidPitchValue;
  }
  if (copy.width == 0 || copy.rows == 0) return cudaSuccess;
  const Sides side = sides(machine, copy);
  Work work{"copy", {}, {}, kLatencyNs, [copy] { copy_rows(copy); }};
  work.duration_ns += static_cast<std::int64_t>(copy.width * copy.rows) / kBytesPerNs;
  if (side.from_device) work.reads = ranges(copy.from, copy.from_pitch, copy);
  if (side.to_device) work.writes = ranges(copy.to, copy.to_pitch, copy);
  const bool takes_now = !side.from_device && !is_pinned(runtime, copy.from, copy.from_pitch, copy);
  const bool to_pageable = !side.to_device && !is_pinned(runtime, copy.to, copy.to_pitch, copy);
  if ((takes_now || to_pageable) && runtime.capture_of(stream.id)) {
    runtime.capture_of(stream.id)->invalidate();
    return cudaErrorStreamCaptureUnsupported;
  }
  if (takes_now) work.run = staged(copy);
  submit(runtime, machine, stream,
         Submission{std::move(work), activity(runtime, side, copy), copy.width * copy.rows});
  const bool with_pinned = !(side.from_device && side.to_device) && !takes_now;
  if (to_pageable || (mode == Mode::synchronous && with_pinned)) machine.synchronise(stream.id);
  return cudaSuccess;
}

cudaError_t fill(FakeRuntime& runtime, Machine& machine, StreamRef stream, void* memory, int value,
                 std::size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  Work work{
      "memset", {}, {{memory, bytes}}, kLatencyNs, [=] { std::memset(memory, value, bytes); }};
  work.duration_ns += static_cast<std::int64_t>(bytes) / kBytesPerNs;
  submit(runtime, machine, stream, Submission{std::move(work), Activity::memset, bytes});
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    return enqueue(runtime, machine, runtime.use(stream), flat(to, from, bytes, kind),
                   Mode::asynchronous);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t rows,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    return enqueue(runtime, machine, runtime.use(stream),
                   pitched(to, to_pitch, from, from_pitch, width, rows, kind), Mode::asynchronous);
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (runtime.spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    return enqueue(runtime, machine, runtime.default_stream(machine), flat(to, from, bytes, kind),
                   Mode::synchronous);
  });
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t rows, cudaMemcpyKind kind) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (runtime.spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    return enqueue(runtime, machine, runtime.default_stream(machine),
                   pitched(to, to_pitch, from, from_pitch, width, rows, kind), Mode::synchronous);
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    return fill(runtime, machine, runtime.use(stream), memory, value, bytes);
  });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudart_call(__func__, [&](FakeRuntime& runtime, Machine& machine) {
    if (runtime.spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    return fill(runtime, machine, runtime.default_stream(machine), memory, value, bytes);
  });
}

}  // extern "C"
