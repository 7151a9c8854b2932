// SPDX-License-Identifier: Apache-2.0
#include "harness/world/thread_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/world/cores.h"
#include "harness/world/doorbell.h"
#include "harness/world/process.h"
#include "harness/world/say.h"
#include "harness/world/sense_barrier.h"
#include "suite/error.h"

namespace commfuse {
namespace {

constexpr std::size_t kBlockAlignment = 64;
// How long control traffic spins before it sleeps, where every rank has a core.
constexpr std::int64_t kControlSpinNs = 50'000;

struct FreeBlock {
  void operator()(std::byte* block) const noexcept { std::free(block); }
};

// One rank's block of exactly `size` bytes, so that a sanitizer sees a write past its end.
struct Block {
  std::unique_ptr<std::byte, FreeBlock> data;
  std::size_t size = 0;
};

Block make_block(std::size_t size) {
  void* data = nullptr;
  if (posix_memalign(&data, kBlockAlignment, std::max<std::size_t>(size, 1)) != 0) {
    throw std::bad_alloc();
  }
  std::memset(data, 0, size);
  return {std::unique_ptr<std::byte, FreeBlock>(static_cast<std::byte*>(data)), size};
}

struct BlockTable {
  std::vector<Block> blocks;
};

class ThreadSegment final : public SharedSegment {
 public:
  explicit ThreadSegment(std::shared_ptr<const BlockTable> table) : table_(std::move(table)) {}
  [[nodiscard]] std::span<std::byte> block(std::int32_t rank) const override {
    const Block& block = table_->blocks.at(static_cast<std::size_t>(rank));
    return {block.data.get(), block.size};
  }

 private:
  std::shared_ptr<const BlockTable> table_;
};

class Group;

// What a rank shows the others during one call. Written by its rank before a barrier, read by
// others after it, and not written again before the next barrier.
struct alignas(64) Slot {
  double number = 0;
  std::int64_t integer = 0;
  std::vector<std::byte> bytes;  // a copy: a rank that fails takes its own memory with it
  std::shared_ptr<Group> group;
  std::shared_ptr<BlockTable> table;
};

// Threads that form a world; shared by their World objects.
class Group {
 public:
  Group(std::int32_t ranks, std::int32_t cores)
      : slots_(static_cast<std::size_t>(ranks)), cores_(cores) {}

  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(slots_.size()); }
  [[nodiscard]] std::int32_t cores() const { return cores_; }
  [[nodiscard]] bool own_cores() const { return ranks() <= cores_; }
  Slot& slot(std::int32_t rank) { return slots_[static_cast<std::size_t>(rank)]; }

  void wait(std::int64_t spin_ns) {
    if (!barrier_.arrive_and_wait(static_cast<std::uint32_t>(ranks()), spin_ns)) {
      throw WorldBroken();
    }
  }
  void break_for_ever() noexcept { barrier_.break_for_ever(); }

 private:
  SenseBarrier barrier_;
  std::vector<Slot> slots_;
  std::int32_t cores_;  // of the process, before anybody pinned a rank
};

// The first failure of a run, and the groups to break when it happens.
class Failure {
 public:
  void add(const std::shared_ptr<Group>& group) {
    const std::lock_guard lock(mutex_);
    std::erase_if(groups_, [](const auto& known) { return known.expired(); });
    groups_.push_back(group);
    if (raised_) group->break_for_ever();
  }

  // A rank's exception; the first one is kept.
  void raise(std::int32_t rank, std::exception_ptr cause) {
    const std::lock_guard lock(mutex_);
    if (!raised_) {
      raised_ = true;
      rank_ = rank;
      cause_ = std::move(cause);
    }
    for (const auto& known : groups_) {
      if (const auto group = known.lock()) group->break_for_ever();
    }
  }

  [[nodiscard]] bool raised() const {
    const std::lock_guard lock(mutex_);
    return raised_;
  }
  [[nodiscard]] RankError error() const {
    const std::lock_guard lock(mutex_);
    return {rank_, cause_};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Group>> groups_;
  bool raised_ = false;
  std::int32_t rank_ = 0;
  std::exception_ptr cause_;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(Failure& failure, std::shared_ptr<Group> group, std::int32_t rank)
      : failure_(&failure), group_(std::move(group)), rank_(rank), host_(host_name()) {}

  [[nodiscard]] std::int32_t rank() const override { return rank_; }
  [[nodiscard]] std::int32_t ranks() const override { return group_->ranks(); }
  [[nodiscard]] std::string host() const override { return host_; }
  [[nodiscard]] bool one_node() const override { return true; }

  void barrier() override { group_->wait(group_->own_cores() ? kNeverNs : 0); }
  void idle_barrier() override { group_->wait(0); }

  double max(double value) override {
    own_slot().number = value;
    meet();
    double result = group_->slot(0).number;
    for (std::int32_t rank = 1; rank < ranks(); ++rank) {
      result = std::max(result, group_->slot(rank).number);
    }
    meet();
    return result;
  }

  std::int64_t sum(std::int64_t value) override {
    own_slot().integer = value;
    meet();
    std::int64_t result = 0;
    for (std::int32_t rank = 0; rank < ranks(); ++rank) result += group_->slot(rank).integer;
    meet();
    return result;
  }

  std::vector<std::byte> broadcast(std::span<const std::byte> bytes, std::int32_t root) override {
    own_slot().bytes.assign(bytes.begin(), bytes.end());
    meet();
    std::vector<std::byte> result = group_->slot(root).bytes;
    meet();
    return result;
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes,
                                             std::int32_t root) override {
    own_slot().bytes.assign(bytes.begin(), bytes.end());
    meet();
    std::vector<std::vector<std::byte>> result;
    for (std::int32_t rank = 0; rank_ == root && rank < ranks(); ++rank) {
      result.push_back(group_->slot(rank).bytes);
    }
    meet();
    return result;
  }

  std::unique_ptr<World> split(std::int32_t color) override {
    own_slot().integer = color;
    meet();
    std::int32_t leader = -1;
    std::int32_t members = 0;
    std::int32_t place = 0;
    for (std::int32_t rank = 0; rank < ranks(); ++rank) {
      if (group_->slot(rank).integer != color) continue;
      if (leader < 0) leader = rank;
      if (rank == rank_) place = members;
      ++members;
    }
    const bool leads = color >= 0 && leader == rank_;
    if (leads) {
      own_slot().group = std::make_shared<Group>(members, group_->cores());
      failure_->add(own_slot().group);
    }
    meet();
    std::unique_ptr<World> part;
    if (color >= 0) {
      part = std::make_unique<ThreadWorld>(*failure_, group_->slot(leader).group, place);
    }
    meet();
    own_slot().group.reset();
    return part;
  }

  std::unique_ptr<SharedSegment> shared(std::size_t bytes) override {
    if (rank_ == 0) {
      own_slot().table = std::make_shared<BlockTable>();
      own_slot().table->blocks.resize(static_cast<std::size_t>(ranks()));
    }
    meet();
    const std::shared_ptr<BlockTable> table = group_->slot(0).table;
    table->blocks[static_cast<std::size_t>(rank_)] = make_block(bytes);
    meet();
    own_slot().table.reset();
    return std::make_unique<ThreadSegment>(table);
  }

  [[noreturn]] void abort(int exit_code) override { flush_and_exit(exit_code); }

 private:
  Slot& own_slot() { return group_->slot(rank_); }
  void meet() { group_->wait(group_->own_cores() ? kControlSpinNs : 0); }

  Failure* failure_;
  std::shared_ptr<Group> group_;
  std::int32_t rank_;
  std::string host_;
};

std::string text_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

// Threads that are always joined, whatever happens after they started.
class Threads {
 public:
  Threads() = default;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { join(); }
  template <class Body>
  void start(Body&& body) {
    threads_.emplace_back(std::forward<Body>(body));
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

[[noreturn]] void give_up(const Failure& failure) {
  say(fmt::format("{}; other ranks still wait for it, ending the process", failure.error().what()));
  flush_and_exit(EXIT_FAILURE);
}

}  // namespace

RankError::RankError(std::int32_t rank, std::exception_ptr cause)
    : std::runtime_error(fmt::format("rank {}: {}", rank, text_of(cause))),
      rank_(rank),
      cause_(std::move(cause)) {}

void run_thread_ranks(std::int32_t ranks, const std::function<void(World&)>& body,
                      std::chrono::nanoseconds patience) {
  if (ranks < 1) throw UsageError(fmt::format("needs at least one rank, got {}", ranks));
  Failure failure;
  const auto group = std::make_shared<Group>(ranks, cores_of_this_thread());
  failure.add(group);
  std::atomic<std::int32_t> ended{0};
  Doorbell bell;
  const auto run_rank = [&](std::int32_t rank) {
    try {
      ThreadWorld world(failure, group, rank);
      body(world);
    } catch (...) {
      failure.raise(rank, std::current_exception());
    }
    ended.fetch_add(1, std::memory_order_release);
    bell.ring();
  };

  Threads threads;
  try {
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      threads.start([&run_rank, rank] { run_rank(rank); });
    }
  } catch (...) {  // too many threads for this system: those that run wait for ranks never started
    failure.raise(0, std::current_exception());
    throw;
  }
  const auto all_ended = [&] { return ended.load(std::memory_order_acquire) == ranks; };
  bell.wait_until([&] { return all_ended() || failure.raised(); }, kNeverNs);
  if (!bell.wait_until(all_ended, monotonic_ns() + patience.count())) give_up(failure);
  threads.join();
  if (failure.raised()) throw failure.error();
}

}  // namespace commfuse
