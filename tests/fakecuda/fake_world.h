// SPDX-License-Identifier: Apache-2.0
// A world whose ranks are the host threads of a machine: its barriers are the machine's, so that
// what a bootstrap network orders is ordered in the machine too, and a seed replays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/world/world.h"
#include "tests/fakecuda/machine.h"

namespace commfuse::fake {

class FakeWorld final : public World {
 public:
  /// What the members of a world show one another; made by one of them.
  struct Board;

  /// The world of all ranks, for the calling host thread. `board` is shared by all.
  FakeWorld(Machine& machine, std::shared_ptr<Board> board, std::int32_t rank);
  /// For the ranks of the machine with these numbers, ascending.
  static std::shared_ptr<Board> make_board(std::vector<std::int32_t> members);

  [[nodiscard]] std::int32_t rank() const override { return rank_; }
  [[nodiscard]] std::int32_t ranks() const override;
  [[nodiscard]] std::string host() const override { return "fake"; }
  [[nodiscard]] bool one_node() const override { return true; }
  /// After the end of the run it returns at once, so that destructors which meet in a barrier do
  /// not throw; the collectives throw Stopped then.
  void barrier() override;
  void idle_barrier() override { barrier(); }
  double max(double value) override;
  std::int64_t sum(std::int64_t value) override;
  std::vector<std::byte> broadcast(std::span<const std::byte> bytes, std::int32_t root) override;
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes,
                                             std::int32_t root) override;
  std::unique_ptr<World> split(std::int32_t color) override;
  /// Host memory, not simulated: accesses to it are not checked.
  std::unique_ptr<SharedSegment> shared(std::size_t bytes) override;
  /// Ends the run of the machine with a finding that names the exit code. Host threads only.
  [[noreturn]] void abort(int exit_code) override;

 private:
  void meet() const;

  Machine& machine_;
  std::shared_ptr<Board> board_;
  std::int32_t rank_;
};

/// Runs `body` once per rank, as the host functions of the machine.
Verdict run_fake_ranks(Machine& machine, std::int32_t ranks,
                       const std::function<void(World&)>& body);

}  // namespace commfuse::fake
