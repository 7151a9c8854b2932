// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "tests/fakecuda/call_fault.h"
#include "tests/fakecuda/captured_streams.h"
#include "tests/fakecuda/launch_log.h"
#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/nccl_world.h"
#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

using Kind = NcclCall::Kind;

constexpr std::int64_t kHostCall_ns = 2000;

bool to_self(const NcclCall& call) { return call.point_to_point() && call.peer == call.comm->rank; }

/// Calls of one operation progress together: none may touch what another writes.
void check_apart(const NcclCall& a, const NcclCall& b) {
  if (to_self(a) && to_self(b) && a.source == b.target && a.source != nullptr) {
    throw Finding(Verdict::Kind::race,
                  fmt::format("{}: in-place send to itself, which NCCL skips: it orders nothing",
                              a.comm->clique->name));
  }
  if (overlap(written_by(a), written_by(b)) || overlap(written_by(a), read_by(b)) ||
      overlap(read_by(a), written_by(b))) {
    throw Finding(Verdict::Kind::race,
                  fmt::format("{}: calls of one group use the same bytes", a.comm->clique->name));
  }
}

void check_all_apart(const std::vector<NcclCall>& calls) {
  for (const NcclCall& a : calls) {
    for (const NcclCall& b : calls) {
      if (&a < &b) {
        check_apart(a, b);
        check_apart(b, a);
      }
    }
  }
}

bool self_sends_are_received(const std::vector<NcclCall>& calls) {
  const auto count = [&](Kind kind) {
    return std::ranges::count_if(
        calls, [&](const NcclCall& call) { return call.kind == kind && to_self(call); });
  };
  return count(Kind::send) == count(Kind::receive);
}

/// Without partners a collective is a copy, and nothing at all in place.
bool is_copy(const NcclCall& call) {
  return !call.point_to_point() && call.comm->clique->ranks == 1;
}

std::vector<StreamId> streams_of(const std::vector<NcclCall>& calls) {
  std::vector<StreamId> streams;
  for (const NcclCall& call : calls) {
    if (std::ranges::find(streams, call.stream) == streams.end()) streams.push_back(call.stream);
  }
  return streams;
}

/// A batch of copies that run side by side: a block to every rank, and the own one to its own place
/// unless it lies there.
void note_copies(OpId op, const NcclCall& call) {
  const std::size_t bytes = call.count * bytes_of(call.type);
  const std::size_t place = static_cast<std::size_t>(call.comm->rank) * bytes;
  const bool in_place = call.kind == Kind::all_gather &&
                        static_cast<const std::byte*>(call.target) + place == call.source;
  for (std::int32_t to = 0; to < call.comm->clique->ranks; ++to) {
    const bool own_copy = to == call.comm->rank;
    if (own_copy && in_place) continue;
    const LaunchKind kind = own_copy ? LaunchKind::copy_within_device : LaunchKind::peer_copy;
    note_launch({op, kind, "", bytes, call.stream, false});
  }
}

/// Calls on one communicator: one operation in its internal stream, behind and before all streams.
void enqueue_joint(Machine& machine, const std::vector<NcclCall>& calls) {
  const ncclComm& comm = *calls.front().comm;
  std::vector<Meeting> meetings;
  std::size_t bytes = 0;
  for (const NcclCall& call : calls) {
    meetings.push_back(meeting_of(call));
    bytes += written_by(call).bytes;
  }
  const std::vector<StreamId> streams = streams_of(calls);
  for (const StreamId stream : streams) {
    machine.record(stream, comm.ready);
    machine.wait(comm.stream, comm.ready);
  }
  const std::string kernel = kernel_of(calls.front());
  const OpId op = machine.rendezvous(comm.stream, kernel, std::move(meetings));
  if (by_copy_engines(calls.front())) {
    note_copies(op, calls.front());
  } else {
    const LaunchKind kind =
        is_copy(calls.front()) ? LaunchKind::copy_within_device : LaunchKind::kernel;
    note_launch({op, kind, kernel, bytes, streams.front(), kind == LaunchKind::kernel});
  }
  machine.record(comm.stream, comm.done);
  for (const StreamId stream : streams) machine.wait(stream, comm.done);
}

/// Now, or in every launch of a graph; then it matches what the others launch at their turn.
void issue_joint(const std::vector<NcclCall>& calls) {
  Machine& machine = Machine::current();
  const std::vector<StreamId> streams = streams_of(calls);
  if (streams.size() == 1) {
    return enqueue_or_capture(machine, streams.front(), [calls](Machine& later, StreamId lane) {
      std::vector<NcclCall> again = calls;
      for (NcclCall& call : again) call.stream = lane;
      enqueue_joint(later, again);
    });
  }
  for (const StreamId stream : streams) {
    if (!is_captured(machine, stream)) continue;
    throw Finding(Verdict::Kind::host_error, "the fake captures no groups of several streams");
  }
  enqueue_joint(machine, calls);
}

ncclResult_t issue(std::vector<NcclCall> calls) {
  Machine::current().advance_host(kHostCall_ns);
  std::erase_if(calls,
                [](const NcclCall& call) { return is_copy(call) && call.source == call.target; });
  if (!self_sends_are_received(calls)) {
    return NcclWorld::current().refuse(ncclInvalidUsage,
                                       "a send to itself without a receive in the same group");
  }
  while (!calls.empty()) {
    const ncclComm* const comm = calls.front().comm;
    std::vector<NcclCall> rest;
    std::ranges::copy_if(calls, std::back_inserter(rest),
                         [&](const NcclCall& call) { return call.comm != comm; });
    std::erase_if(calls, [&](const NcclCall& call) { return call.comm != comm; });
    check_all_apart(calls);
    make_call({.kind = StreamCall::Kind::joint, .stream = calls.front().stream},
              [calls](const StreamCall&) { issue_joint(calls); });
    calls = std::move(rest);
  }
  return ncclSuccess;
}

bool groups_left_out() {
  CallFault* const fault = CallFault::current();
  return fault != nullptr && fault->ungrouped();
}

}  // namespace

void start_group() {
  if (!groups_left_out()) ++NcclWorld::current().rank().group_depth;
}

ncclResult_t end_group() {
  if (groups_left_out()) return ncclSuccess;
  NcclRank& rank = NcclWorld::current().rank();
  if (rank.group_depth == 0) {
    return NcclWorld::current().refuse(ncclInvalidUsage, "the end of no group");
  }
  if (--rank.group_depth > 0) return ncclSuccess;
  const std::vector<NcclCall> calls = std::exchange(rank.calls, {});
  const ncclResult_t error = std::exchange(rank.group_error, ncclSuccess);
  return error != ncclSuccess ? error : issue(calls);
}

ncclResult_t give(const std::vector<NcclCall>& calls) {
  NcclRank& rank = NcclWorld::current().rank();
  if (rank.group_depth == 0) return issue(calls);
  rank.calls.insert(rank.calls.end(), calls.begin(), calls.end());
  return ncclSuccess;
}

ncclResult_t refuse_call(ncclResult_t result, std::string text) {
  NcclRank& rank = NcclWorld::current().rank();
  if (rank.group_depth > 0 && rank.group_error == ncclSuccess) rank.group_error = result;
  return NcclWorld::current().refuse(result, std::move(text));
}

}  // namespace commfuse::fake
