// SPDX-License-Identifier: Apache-2.0
#include "harness/world/mpi_world.h"

#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "harness/world/cores.h"
#include "harness/world/doorbell.h"
#include "harness/world/library_error.h"
#include "harness/world/mpi_session.h"
#include "harness/world/process.h"

namespace commfuse {
namespace {

// MPI counts in int; larger contents travel in several messages.
constexpr std::size_t kLargestMessage = std::size_t{1} << 30;
constexpr int kTag = 0;
// How often a sleeping rank looks whether the others have come, where MPI is all they share.
constexpr std::int64_t kIdleLookNs = 1'000'000;

MpiComm duplicate(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  CFB_MPI(MPI_Comm_dup(parent, &comm));
  return MpiComm(comm);
}

template <class Transfer>
void in_chunks(std::size_t bytes, Transfer&& transfer) {
  for (std::size_t begin = 0; begin < bytes; begin += kLargestMessage) {
    transfer(begin, static_cast<int>(std::min(kLargestMessage, bytes - begin)));
  }
}

bool on_one_node(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  CFB_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  const MpiComm owner(node);
  int here = 0;
  int all = 0;
  CFB_MPI(MPI_Comm_size(node, &here));
  CFB_MPI(MPI_Comm_size(comm, &all));
  int smallest = 0;
  CFB_MPI(MPI_Allreduce(&here, &smallest, 1, MPI_INT, MPI_MIN, comm));
  return smallest == all;
}

}  // namespace

MpiComm::MpiComm(MpiComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}

MpiComm& MpiComm::operator=(MpiComm&& other) noexcept {
  std::swap(comm_, other.comm_);
  return *this;
}

MpiComm::~MpiComm() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

MpiWorld::MpiWorld(MPI_Comm parent, SharedMemory memory)
    : comm_(duplicate(parent)), control_(duplicate(parent)), host_(host_name()), memory_(memory) {
  CFB_MPI(MPI_Comm_rank(control_.get(), &rank_));
  CFB_MPI(MPI_Comm_size(control_.get(), &ranks_));
  find_barrier();
}

void MpiWorld::find_barrier() {
  if (memory_ == SharedMemory::never || !on_one_node(control_.get())) {
    not_shared_ = "the ranks do not share a node";
    return;
  }
  try {
    barrier_memory_ = share_between_processes(*this, rank_ == 0 ? sizeof(SenseBarrier) : 0);
  } catch (const LibraryError&) {  // on this rank alone
    throw;
  } catch (const std::runtime_error& error) {  // on all ranks alike
    not_shared_ = error.what();
    return;
  }
  auto* const memory = reinterpret_cast<SenseBarrier*>(barrier_memory_->block(0).data());
  // Nobody can use it before rank 0 has made it: node_cores() waits for a message of rank 0.
  barrier_ = rank_ == 0 ? std::construct_at(memory) : std::launder(memory);
  barrier_spin_ns_ = node_cores(*this).one_each() ? kNeverNs : 0;
}

void MpiWorld::barrier() {
  if (barrier_ == nullptr) {
    CFB_MPI(MPI_Barrier(control_.get()));
  } else {
    meet_in_memory(barrier_spin_ns_);
  }
}

void MpiWorld::meet_in_memory(std::int64_t spin_ns) {
  // Nobody breaks it: a process that fails ends all.
  static_cast<void>(barrier_->arrive_and_wait(static_cast<std::uint32_t>(ranks_), spin_ns));
}

void MpiWorld::idle_barrier() {
  if (barrier_ != nullptr) return meet_in_memory(0);
  MPI_Request request = MPI_REQUEST_NULL;
  CFB_MPI(MPI_Ibarrier(control_.get(), &request));
  for (int done = 0;;) {
    CFB_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return;
    sleep_until(monotonic_ns() + kIdleLookNs);
  }
}

double MpiWorld::max(double value) {
  double result = 0;
  CFB_MPI(MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, control_.get()));
  return result;
}

std::int64_t MpiWorld::sum(std::int64_t value) {
  std::int64_t result = 0;
  CFB_MPI(MPI_Allreduce(&value, &result, 1, MPI_INT64_T, MPI_SUM, control_.get()));
  return result;
}

std::vector<std::byte> MpiWorld::broadcast(std::span<const std::byte> bytes, std::int32_t root) {
  std::uint64_t size = bytes.size();
  CFB_MPI(MPI_Bcast(&size, 1, MPI_UINT64_T, root, control_.get()));
  std::vector<std::byte> result(size);
  if (rank_ == root) std::copy(bytes.begin(), bytes.end(), result.begin());
  in_chunks(size, [&](std::size_t begin, int count) {
    CFB_MPI(MPI_Bcast(result.data() + begin, count, MPI_BYTE, root, control_.get()));
  });
  return result;
}

std::vector<std::vector<std::byte>> MpiWorld::gather(std::span<const std::byte> bytes,
                                                     std::int32_t root) {
  const std::uint64_t size = bytes.size();
  std::vector<std::uint64_t> sizes(rank_ == root ? static_cast<std::size_t>(ranks_) : 0);
  CFB_MPI(MPI_Gather(&size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, root, control_.get()));
  std::vector<std::vector<std::byte>> result;
  if (rank_ != root) {
    in_chunks(size, [&](std::size_t begin, int count) {
      CFB_MPI(MPI_Send(bytes.data() + begin, count, MPI_BYTE, root, kTag, control_.get()));
    });
    return result;
  }
  // Message by message, not MPI_Gatherv: its displacements are int, too small for large contents.
  for (std::int32_t rank = 0; rank < ranks_; ++rank) {
    auto& block = result.emplace_back(sizes[static_cast<std::size_t>(rank)]);
    if (rank == root) {
      std::copy(bytes.begin(), bytes.end(), block.begin());
      continue;
    }
    in_chunks(block.size(), [&](std::size_t begin, int count) {
      CFB_MPI(MPI_Recv(block.data() + begin, count, MPI_BYTE, rank, kTag, control_.get(),
                       MPI_STATUS_IGNORE));
    });
  }
  return result;
}

std::unique_ptr<World> MpiWorld::split(std::int32_t color) {
  MPI_Comm part = MPI_COMM_NULL;
  CFB_MPI(MPI_Comm_split(control_.get(), color < 0 ? MPI_UNDEFINED : color, rank_, &part));
  if (part == MPI_COMM_NULL) return nullptr;
  const MpiComm owner(part);
  return std::make_unique<MpiWorld>(part, memory_);
}

std::unique_ptr<SharedSegment> MpiWorld::shared(std::size_t bytes) {
  if (!one_node()) throw std::runtime_error(not_shared_);
  return share_between_processes(*this, bytes);
}

void MpiWorld::abort(int exit_code) { abort_mpi(exit_code); }

}  // namespace commfuse
