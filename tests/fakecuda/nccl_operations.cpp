// SPDX-License-Identifier: Apache-2.0
// NCCL's functions that move data, and groups of them.
#include <fmt/format.h>
#include <nccl.h>

#include <vector>

#include "tests/fakecuda/call_fault.h"
#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/nccl_call.h"
#include "tests/fakecuda/nccl_checks.h"
#include "tests/fakecuda/nccl_group.h"
#include "tests/fakecuda/nccl_world.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

using Kind = NcclCall::Kind;

struct Buffers {
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
};

ncclResult_t check_call(const Buffers& buffers, Kind kind, const ncclComm* comm) {
  if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
  if (bytes_of(buffers.type) == 0) {
    return refuse_call(ncclInvalidArgument, fmt::format("type {}", static_cast<int>(buffers.type)));
  }
  const bool without_source = buffers.source == nullptr && kind != Kind::receive;
  const bool without_target = buffers.target == nullptr && kind != Kind::send;
  if (buffers.count > 0 && (without_source || without_target)) {
    return refuse_call(ncclInvalidArgument, "a buffer is null");
  }
  return ncclSuccess;
}

NcclCall call_of(const Buffers& buffers, Kind kind, ncclComm* comm, cudaStream_t stream) {
  return {kind,           comm,          stream_of(stream), buffers.source,
          buffers.target, buffers.count, buffers.type,      0};
}

ncclResult_t to_or_from(const Buffers& buffers, Kind kind, int peer, ncclComm* comm,
                        cudaStream_t stream) {
  if (const ncclResult_t result = check_call(buffers, kind, comm); result != ncclSuccess)
    return result;
  if (peer < 0 || peer >= comm->clique->ranks) {
    return refuse_call(ncclInvalidArgument,
                       fmt::format("peer {} of {} ranks", peer, comm->clique->ranks));
  }
  NcclCall call = call_of(buffers, kind, comm, stream);
  call.peer = peer;
  if (CallFault* fault = CallFault::current()) call.count = fault->count_of(call.count);
  check_memory(call);
  return give({call});
}

ncclResult_t collective(const Buffers& buffers, Kind kind, ncclComm* comm, cudaStream_t stream) {
  if (const ncclResult_t result = check_call(buffers, kind, comm); result != ncclSuccess)
    return result;
  const NcclCall call = call_of(buffers, kind, comm, stream);
  check_memory(call);
  return buffers.count == 0 ? ncclSuccess : give({call});
}

ncclResult_t reduction(const Buffers& buffers, ncclRedOp_t op, Kind kind, ncclComm* comm,
                       cudaStream_t stream) {
  if (op < 0 || op >= ncclNumOps) {
    return refuse_call(ncclInvalidArgument, fmt::format("reduction {}", static_cast<int>(op)));
  }
  if (op != ncclSum) {
    throw Finding(Verdict::Kind::host_error, "the fake NCCL has no reduction but the sum");
  }
  if (bytes_of(buffers.type) > 0) (void)summed_format(buffers.type);
  return collective(buffers, kind, comm, stream);
}

/// Sends and receives of all pairs, itself included, where copy engines do not do it.
ncclResult_t all_to_all(const Buffers& buffers, ncclComm* comm, cudaStream_t stream) {
  if (const ncclResult_t result = check_call(buffers, Kind::all_to_all, comm);
      result != ncclSuccess) {
    return result;
  }
  const NcclCall whole = call_of(buffers, Kind::all_to_all, comm, stream);
  check_memory(whole);
  if (by_copy_engines(whole) && buffers.count > 0) return give({whole});
  std::vector<NcclCall> calls;
  const std::size_t block = buffers.count * bytes_of(buffers.type);
  for (std::int32_t peer = 0; peer < comm->clique->ranks; ++peer) {
    const std::size_t offset = static_cast<std::size_t>(peer) * block;
    NcclCall send = call_of(buffers, Kind::send, comm, stream);
    send.source = static_cast<const std::byte*>(buffers.source) + offset;
    send.target = nullptr;
    send.peer = peer;
    NcclCall receive = call_of(buffers, Kind::receive, comm, stream);
    receive.source = nullptr;
    receive.target = static_cast<std::byte*>(buffers.target) + offset;
    receive.peer = peer;
    calls.insert(calls.end(), {send, receive});
  }
  return buffers.count == 0 ? ncclSuccess : give(calls);
}

}  // namespace
}  // namespace commfuse::fake

using namespace commfuse::fake;

extern "C" {

ncclResult_t ncclGroupStart() {
  return nccl_call([] {
    start_group();
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  return nccl_call([] { return end_group(); });
}

ncclResult_t ncclSend(const void* source, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return nccl_call([&] {
    return to_or_from({source, nullptr, count, type}, Kind::send, peer, comm, stream);
  });
}

ncclResult_t ncclRecv(void* target, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return nccl_call([&] {
    return to_or_from({nullptr, target, count, type}, Kind::receive, peer, comm, stream);
  });
}

ncclResult_t ncclAllGather(const void* source, void* target, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return nccl_call([&] {
    return collective({source, target, count, type}, Kind::all_gather, comm, stream);
  });
}

ncclResult_t ncclReduceScatter(const void* source, void* target, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return nccl_call([&] {
    return reduction({source, target, count, type}, op, Kind::reduce_scatter, comm, stream);
  });
}

ncclResult_t ncclAllReduce(const void* source, void* target, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return nccl_call([&] {
    return reduction({source, target, count, type}, op, Kind::all_reduce, comm, stream);
  });
}

ncclResult_t ncclAlltoAll(const void* source, void* target, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return nccl_call([&] { return all_to_all({source, target, count, type}, comm, stream); });
}

}  // extern "C"
