// SPDX-License-Identifier: Apache-2.0
// World: the ranks that run together, by MPI processes or by threads of one process. Control
// traffic only; what is measured goes through transports. Every call is collective over the world
// unless it says otherwise, and made by one thread per rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace commfuse {

/// Memory that every rank of a world on one node can read and write: one block per rank, at
/// whatever address it has here.
class SharedSegment {
 public:
  virtual ~SharedSegment() = default;
  /// Block of `rank`, 64-byte aligned, zeroed when created.
  [[nodiscard]] virtual std::span<std::byte> block(std::int32_t rank) const = 0;
};

class World {
 public:
  virtual ~World() = default;
  [[nodiscard]] virtual std::int32_t rank() const = 0;
  [[nodiscard]] virtual std::int32_t ranks() const = 0;
  [[nodiscard]] virtual std::string host() const = 0;
  /// Whether all ranks share this node's memory and monotonic clock.
  [[nodiscard]] virtual bool one_node() const = 0;

  /// All ranks leave at nearly the same time. Spins where every rank has a core of its own.
  virtual void barrier() = 0;
  /// For ranks with nothing to do: sleeps instead of spinning.
  virtual void idle_barrier() = 0;
  virtual double max(double value) = 0;
  virtual std::int64_t sum(std::int64_t value) = 0;
  /// Root's bytes, on every rank.
  virtual std::vector<std::byte> broadcast(std::span<const std::byte> bytes, std::int32_t root) = 0;
  /// Every rank's bytes by rank on root; empty elsewhere.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes,
                                                     std::int32_t root) = 0;
  /// Ranks of equal color form a world, ordered by rank here; nullptr for a negative color.
  virtual std::unique_ptr<World> split(std::int32_t color) = 0;
  /// Throws std::runtime_error where the ranks do not share a node. `bytes` may differ between
  /// ranks.
  virtual std::unique_ptr<SharedSegment> shared(std::size_t bytes) = 0;
  /// Ends all ranks at once with this exit code. Not collective; may be called from any thread;
  /// does not return.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace commfuse
