// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nccl_collective.h"

namespace commfuse {
namespace {

/// A send to and a receive from every rank, this one included, in one group: what NCCL makes of its
/// own all-to-all, and older ones have too. Only copy engines must be asked by name.
void enqueue_all_to_all(const Collective& what, const DeviceStorage& storage,
                        ncclComm_t communicator, cudaStream_t stream) {
  int ranks = 0;
  CFB_CUDA(ncclCommCount(communicator, &ranks));
  const DType dtype = storage.tensor(what.send.tensor).dtype;
  const auto count = static_cast<std::size_t>(what.send.elements() / ranks);
  const std::size_t bytes = count * static_cast<std::size_t>(bytes_of(dtype));
  const ncclDataType_t type = nccl_type(dtype);
  const std::byte* send = storage.at(what.send);
  std::byte* receive = storage.at(what.receive);
  if (what.via == CollectiveVia::copy_engine) {
    CFB_CUDA(ncclAlltoAll(send, receive, count, type, communicator, stream));
    return;
  }
  NcclGroup group;
  for (int rank = 0; rank < ranks; ++rank) {
    CFB_CUDA(ncclSend(send, count, type, rank, communicator, stream));
    CFB_CUDA(ncclRecv(receive, count, type, rank, communicator, stream));
    send += bytes;
    receive += bytes;
  }
  group.end();
}

}  // namespace

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      break;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
  }
  return ncclFloat32;
}

void enqueue_collective(const Collective& what, const DeviceStorage& storage,
                        ncclComm_t communicator, cudaStream_t stream) {
  const void* const send = storage.at(what.send);
  void* const receive = storage.at(what.receive);
  const ncclDataType_t type = nccl_type(storage.tensor(what.send.tensor).dtype);
  const auto sent = static_cast<std::size_t>(what.send.elements());
  const auto received = static_cast<std::size_t>(what.receive.elements());
  switch (what.kind) {
    case CollectiveKind::all_gather:
      CFB_CUDA(ncclAllGather(send, receive, sent, type, communicator, stream));
      return;
    case CollectiveKind::reduce_scatter:
      CFB_CUDA(ncclReduceScatter(send, receive, received, type, ncclSum, communicator, stream));
      return;
    case CollectiveKind::all_to_all:
      enqueue_all_to_all(what, storage, communicator, stream);
      return;
    case CollectiveKind::all_reduce:  // identical copies on every rank, as nccl.h has it
      CFB_CUDA(ncclAllReduce(send, receive, sent, type, ncclSum, communicator, stream));
      return;
  }
}

}  // namespace commfuse
