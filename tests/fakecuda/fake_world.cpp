// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/fake_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

namespace commfuse::fake {
namespace {

constexpr std::size_t kBlockAlignment = 64;

struct FreeBlock {
  void operator()(std::byte* block) const noexcept { std::free(block); }
};

/// One rank's block; shared by all that can see it.
struct Block {
  std::unique_ptr<std::byte, FreeBlock> data;
  std::size_t bytes = 0;
};

std::shared_ptr<Block> make_block(std::size_t bytes) {
  const std::size_t rounded = (bytes + kBlockAlignment) / kBlockAlignment * kBlockAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kBlockAlignment, rounded));
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  auto block = std::make_shared<Block>();
  block->data.reset(data);
  block->bytes = bytes;
  return block;
}

class FakeSegment final : public SharedSegment {
 public:
  explicit FakeSegment(std::vector<std::shared_ptr<Block>> blocks) : blocks_(std::move(blocks)) {}
  [[nodiscard]] std::span<std::byte> block(std::int32_t rank) const override {
    const Block& block = *blocks_.at(static_cast<std::size_t>(rank));
    return {block.data.get(), block.bytes};
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

/// What a rank shows during one call: written before a barrier, read by others after it, and not
/// written again before the next one.
struct Slot {
  double number = 0;
  std::int64_t integer = 0;
  std::vector<std::byte> bytes;
  std::shared_ptr<Block> block;
  std::shared_ptr<FakeWorld::Board> board;
};

}  // namespace

struct FakeWorld::Board {
  std::vector<std::int32_t> members;  // ranks of the machine
  std::vector<Slot> slots;
  Slot& slot(std::int32_t rank) { return slots[static_cast<std::size_t>(rank)]; }
};

std::shared_ptr<FakeWorld::Board> FakeWorld::make_board(std::vector<std::int32_t> members) {
  auto board = std::make_shared<Board>();
  board->slots.resize(members.size());
  board->members = std::move(members);
  return board;
}

FakeWorld::FakeWorld(Machine& machine, std::shared_ptr<Board> board, std::int32_t rank)
    : machine_(machine), board_(std::move(board)), rank_(rank) {}

std::int32_t FakeWorld::ranks() const { return static_cast<std::int32_t>(board_->members.size()); }

void FakeWorld::meet() const { machine_.barrier(board_->members); }

void FakeWorld::barrier() {
  try {
    meet();
  } catch (const Stopped&) {
  }
}

double FakeWorld::max(double value) {
  board_->slot(rank_).number = value;
  meet();
  double result = value;
  for (const Slot& slot : board_->slots) result = std::max(result, slot.number);
  meet();
  return result;
}

std::int64_t FakeWorld::sum(std::int64_t value) {
  board_->slot(rank_).integer = value;
  meet();
  std::int64_t result = 0;
  for (const Slot& slot : board_->slots) result += slot.integer;
  meet();
  return result;
}

std::vector<std::byte> FakeWorld::broadcast(std::span<const std::byte> bytes, std::int32_t root) {
  if (rank_ == root) board_->slot(rank_).bytes.assign(bytes.begin(), bytes.end());
  meet();
  std::vector<std::byte> result = board_->slot(root).bytes;
  meet();
  return result;
}

std::vector<std::vector<std::byte>> FakeWorld::gather(std::span<const std::byte> bytes,
                                                      std::int32_t root) {
  board_->slot(rank_).bytes.assign(bytes.begin(), bytes.end());
  meet();
  std::vector<std::vector<std::byte>> result;
  if (rank_ == root) {
    for (const Slot& slot : board_->slots) result.push_back(slot.bytes);
  }
  meet();
  return result;
}

std::unique_ptr<World> FakeWorld::split(std::int32_t color) {
  board_->slot(rank_).integer = color;
  meet();
  std::vector<std::int32_t> parts;  // ranks here that have this color
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    if (board_->slot(rank).integer == color) parts.push_back(rank);
  }
  if (color >= 0 && parts.front() == rank_) {
    std::vector<std::int32_t> members;
    for (const std::int32_t rank : parts) {
      members.push_back(board_->members[static_cast<std::size_t>(rank)]);
    }
    board_->slot(rank_).board = make_board(std::move(members));
  }
  meet();
  std::unique_ptr<World> part;
  if (color >= 0) {
    const auto place = std::ranges::find(parts, rank_) - parts.begin();
    part = std::make_unique<FakeWorld>(machine_, board_->slot(parts.front()).board,
                                       static_cast<std::int32_t>(place));
  }
  meet();
  board_->slot(rank_).board.reset();
  return part;
}

std::unique_ptr<SharedSegment> FakeWorld::shared(std::size_t bytes) {
  board_->slot(rank_).block = make_block(bytes);
  meet();
  std::vector<std::shared_ptr<Block>> blocks;
  for (const Slot& slot : board_->slots) blocks.push_back(slot.block);
  meet();
  board_->slot(rank_).block.reset();
  return std::make_unique<FakeSegment>(std::move(blocks));
}

void FakeWorld::abort(int exit_code) {
  machine_.end(Finding(Verdict::Kind::host_error,
                       fmt::format("ends all ranks with exit code {}", exit_code)));
}

Verdict run_fake_ranks(Machine& machine, std::int32_t ranks,
                       const std::function<void(World&)>& body) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const auto board = FakeWorld::make_board(std::move(all));
  return machine.run(ranks, [&](std::int32_t rank) {
    FakeWorld world(machine, board, rank);
    body(world);
  });
}

}  // namespace commfuse::fake
