// SPDX-License-Identifier: Apache-2.0
// A world whose ranks are MPI processes.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/world/mpi_error.h"
#include "harness/world/sense_barrier.h"
#include "harness/world/shared_segment.h"
#include "harness/world/world.h"

namespace commfuse {

/// Owns a communicator; MPI_COMM_NULL owns nothing.
class MpiComm {
 public:
  explicit MpiComm(MPI_Comm comm = MPI_COMM_NULL) noexcept : comm_(comm) {}
  MpiComm(MpiComm&& other) noexcept;
  MpiComm& operator=(MpiComm&& other) noexcept;
  ~MpiComm();
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }

 private:
  MPI_Comm comm_;
};

/// Whether a world may use memory that its ranks share. `never` makes it behave as if each rank had
/// a node of its own, which is also how that behaviour is tested.
enum class SharedMemory : std::uint8_t { where_possible, never };

/// All its calls but abort() are made by the thread that made the MpiSession, which outlives it.
class MpiWorld final : public World {
 public:
  /// The ranks of `parent`; collective over them.
  explicit MpiWorld(MPI_Comm parent = MPI_COMM_WORLD,
                    SharedMemory memory = SharedMemory::where_possible);

  [[nodiscard]] std::int32_t rank() const override { return rank_; }
  [[nodiscard]] std::int32_t ranks() const override { return ranks_; }
  [[nodiscard]] std::string host() const override { return host_; }
  /// False also where the ranks share a node but cannot map each other's memory; shared() says why.
  [[nodiscard]] bool one_node() const override { return barrier_ != nullptr; }

  void barrier() override;
  void idle_barrier() override;
  double max(double value) override;
  std::int64_t sum(std::int64_t value) override;
  std::vector<std::byte> broadcast(std::span<const std::byte> bytes, std::int32_t root) override;
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes,
                                             std::int32_t root) override;
  std::unique_ptr<World> split(std::int32_t color) override;
  std::unique_ptr<SharedSegment> shared(std::size_t bytes) override;
  [[noreturn]] void abort(int exit_code) override;

  /// The communicator of these ranks for a transport; this world's own traffic goes over another
  /// one. Owned by this world.
  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_.get(); }

 private:
  void find_barrier();
  void meet_in_memory(std::int64_t spin_ns);

  MpiComm comm_;
  MpiComm control_;
  std::int32_t rank_ = 0;
  std::int32_t ranks_ = 0;
  std::string host_;
  SharedMemory memory_;
  std::string not_shared_;  // why, where barrier_ is null
  std::unique_ptr<SharedSegment> barrier_memory_;
  SenseBarrier* barrier_ = nullptr;  // in barrier_memory_
  std::int64_t barrier_spin_ns_ = 0;
};

}  // namespace commfuse
