// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/nccl_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/fakecuda/nccl_world.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

// Of an invented link: what matters is that transfers take time.
constexpr std::int64_t kLatency_ns = 5000;
constexpr std::int64_t kBytesPer_ns = 100;

using Kind = NcclCall::Kind;

std::size_t ranks_of(const NcclCall& call) {
  return static_cast<std::size_t>(call.comm->clique->ranks);
}

std::size_t block_bytes(const NcclCall& call) { return call.count * bytes_of(call.type); }

const char* type_name(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return "f16";
    case ncclFloat32:
      return "f32";
    case ncclBfloat16:
      return "bf16";
    default:
      return "i8";  // moved, never added
  }
}

std::byte* at(void* base, std::size_t offset) { return static_cast<std::byte*>(base) + offset; }

void copy_block(const NcclCall& call, const NcclJoint& joint) {
  if (block_bytes(call) > 0) std::memmove(joint.targets[1], joint.sources[0], block_bytes(call));
}

/// In-place all-gathers have each source at its place in the target already.
void gather_blocks(const NcclCall& call, const NcclJoint& joint) {
  for (void* target : joint.targets) {
    for (std::size_t i = 0; i < joint.sources.size(); ++i) {
      std::memmove(at(target, i * block_bytes(call)), joint.sources[i], block_bytes(call));
    }
  }
}

void exchange_blocks(const NcclCall& call, const NcclJoint& joint) {
  const std::size_t bytes = block_bytes(call);
  for (std::size_t to = 0; to < joint.targets.size(); ++to) {
    for (std::size_t from = 0; from < joint.sources.size(); ++from) {
      const auto* const source = static_cast<const std::byte*>(joint.sources[from]);
      std::memcpy(at(joint.targets[to], from * bytes), source + to * bytes, bytes);
    }
  }
}

/// Sums in rank order, in fp32, of `count` elements per rank from `first` on; kept apart from the
/// targets, which may be sources too.
std::vector<float> sums(const NcclCall& call, const NcclJoint& joint, std::size_t count) {
  const NumberFormat format = summed_format(call.type);
  std::vector<float> total(count);
  for (const void* source : joint.sources) {
    for (std::size_t i = 0; i < count; ++i) total[i] += load(format, source, i);
  }
  return total;
}

void reduce(const NcclCall& call, const NcclJoint& joint) {
  const NumberFormat format = summed_format(call.type);
  const bool scatter = call.kind == Kind::reduce_scatter;
  const std::vector<float> total =
      sums(call, joint, scatter ? call.count * joint.sources.size() : call.count);
  for (std::size_t rank = 0; rank < joint.targets.size(); ++rank) {
    const std::size_t first = scatter ? rank * call.count : 0;
    for (std::size_t i = 0; i < call.count; ++i) {
      store(format, joint.targets[rank], i, total[first + i]);
    }
  }
}

void carry_out(const NcclCall& call, const NcclJoint& joint) {
  if (call.point_to_point()) return copy_block(call, joint);
  if (call.kind == Kind::all_gather) return gather_blocks(call, joint);
  if (call.kind == Kind::all_to_all) return exchange_blocks(call, joint);
  reduce(call, joint);
}

Meeting place_of(const NcclCall& call) {
  ncclComm& comm = *call.comm;
  const std::string terms = fmt::format("{} of type {}", call.count, static_cast<int>(call.type));
  if (call.kind == Kind::send) {
    return {fmt::format("{} from {} to {} message {}", comm.clique->name, comm.rank, call.peer,
                        comm.sent[call.peer]++),
            2, 0, terms, Work{}};
  }
  if (call.kind == Kind::receive) {
    return {fmt::format("{} from {} to {} message {}", comm.clique->name, call.peer, comm.rank,
                        comm.received[call.peer]++),
            2, 1, terms, Work{}};
  }
  return {fmt::format("{} collective {}", comm.clique->name, comm.collectives++),
          comm.clique->ranks, comm.rank,
          fmt::format("{}, {} {}", kernel_of(call), terms, reached_place(call)), Work{}};
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

NumberFormat summed_format(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return NumberFormat::f32;
    case ncclFloat16:
      return NumberFormat::f16;
    case ncclBfloat16:
      return NumberFormat::bf16;
    default:
      throw Finding(Verdict::Kind::host_error,
                    fmt::format("the fake NCCL does not add type {}", static_cast<int>(type)));
  }
}

Range read_by(const NcclCall& call) {
  if (call.kind == Kind::receive) return {};
  const bool all = call.kind == Kind::reduce_scatter || call.kind == Kind::all_to_all;
  const std::size_t blocks = all ? ranks_of(call) : 1;
  return {call.source, blocks * block_bytes(call)};
}

Range written_by(const NcclCall& call) {
  if (call.kind == Kind::send) return {};
  const bool all = call.kind == Kind::all_gather || call.kind == Kind::all_to_all;
  const std::size_t blocks = all ? ranks_of(call) : 1;
  return {call.target, blocks * block_bytes(call)};
}

std::string kernel_of(const NcclCall& call) {
  const bool symmetric = !call.point_to_point() && in_windows(call);
  switch (call.kind) {
    case Kind::all_gather:
      return symmetric ? "ncclSymkDevKernel_AllGather_ST" : "ncclDevKernel_AllGather_RING_LL";
    case Kind::reduce_scatter:
      if (symmetric) return "ncclSymkDevKernel_ReduceScatter_LD";
      return fmt::format("ncclDevKernel_ReduceScatter_Sum_{}_RING_LL", type_name(call.type));
    case Kind::all_to_all:
      return "all-to-all by copy engines";
    case Kind::all_reduce:
      if (symmetric) return "ncclSymkDevKernel_AllReduce_RSxLD_AGxST";
      return fmt::format("ncclDevKernel_AllReduce_Sum_{}_RING_LL", type_name(call.type));
    default:
      return "ncclDevKernel_SendRecv";
  }
}

Meeting meeting_of(const NcclCall& call) {
  Meeting meeting = place_of(call);
  const std::shared_ptr<NcclJoint> joint = NcclWorld::current().joint(meeting.id, meeting.parties);
  const auto party = static_cast<std::size_t>(meeting.party);
  joint->sources[party] = call.source;
  joint->targets[party] = call.target;
  const Range read = read_by(call);
  const Range written = written_by(call);
  if (read.bytes > 0) meeting.work.reads.push_back(read);
  if (written.bytes > 0) meeting.work.writes.push_back(written);
  meeting.work.duration_ns =
      kLatency_ns + static_cast<std::int64_t>(read.bytes + written.bytes) / kBytesPer_ns;
  // Checked for all parties before any of them runs: the first does the work of all.
  if (party == 0) meeting.work.run = [call, joint] { carry_out(call, *joint); };
  return meeting;
}

}  // namespace commfuse::fake
