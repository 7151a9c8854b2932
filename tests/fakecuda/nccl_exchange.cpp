// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/nccl_exchange.h"

#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "tests/fakecuda/handles.h"
#include "tests/fakecuda/machine.h"

namespace commfuse::fake {
namespace {

constexpr std::array<std::size_t, 2> kChunk{8, 12};  // elements; unlike each other
constexpr std::size_t kBlock = kChunk[0] + kChunk[1];

/// What `source` computes for `target`.
float value(std::int32_t iteration, std::int32_t source, std::int32_t target, std::size_t i) {
  return static_cast<float>(1000 * iteration + 100 * source + 10 * target) +
         static_cast<float>(i) / 32;
}

class RankProgram {
 public:
  RankProgram(const NcclProgram& program, std::int32_t rank, ncclComm_t gather, ncclComm_t exchange,
              NcclProgramResult& result)
      : program_(program), rank_(rank), gather_(gather), exchange_(exchange), result_(result) {}

  void run() {
    register_windows();
    // Old data, so that too early a read is a race in the first iteration too.
    machine_.host_work({"fill", {}, {{slots_, ranks() * kBlock * sizeof(float)}}, 0, [this] {
                          std::fill_n(at(slots_, 0), ranks() * kBlock, -1.0F);
                        }});
    for (iteration_ = 0; iteration_ < program_.iterations; ++iteration_) {
      compute();
      const bool exchange_first = is(NcclBug::opposite_order) && rank_ == 0;
      if (exchange_first) exchange_all();
      ncclAllGather(at(own_, 0), gathered_, kBlock, ncclFloat32, gather_, handle_of(gathering_));
      if (!exchange_first) exchange_all();
      consume();
    }
    machine_.synchronise_device(rank_);
    if (is(NcclBug::freed_too_early)) free_windows();
    for (const ncclWindow_t window : windows_) ncclCommWindowDeregister(gather_, window);
    if (!is(NcclBug::freed_too_early)) free_windows();
  }

 private:
  [[nodiscard]] bool is(NcclBug bug) const { return program_.bug == bug; }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(program_.ranks); }
  static float* at(std::byte* base, std::size_t element) {
    return reinterpret_cast<float*>(base) + element;
  }

  std::byte* windowed(std::size_t blocks) {
    void* memory = nullptr;
    ncclMemAlloc(&memory, blocks * kBlock * sizeof(float));
    return static_cast<std::byte*>(memory);
  }

  void register_windows() {
    std::array<std::pair<std::byte*, std::size_t>, 2> blocks{{{own_, 1}, {gathered_, ranks()}}};
    if (is(NcclBug::windows_reversed) && rank_ == 0) std::swap(blocks[0], blocks[1]);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      ncclCommWindowRegister(gather_, blocks[i].first, blocks[i].second * kBlock * sizeof(float),
                             &windows_[i], NCCL_WIN_COLL_SYMMETRIC);
    }
  }

  void free_windows() {
    for (std::byte* memory : {own_, gathered_}) ncclMemFree(memory);
  }

  std::byte* buffer(std::size_t blocks, const char* name) {
    return machine_.allocate(blocks * kBlock * sizeof(float), name);
  }

  /// Blocks for all peers, and the own one that is gathered.
  void compute() {
    if (!is(NcclBug::overwritten_too_early)) machine_.wait(computing_, exchanged_);
    machine_.wait(computing_, all_gathered_);
    Work work{"compute", {}, {}, 1000, [this, iteration = iteration_] {
                for (std::int32_t peer = 0; peer < program_.ranks; ++peer) {
                  for (std::size_t i = 0; i < kBlock; ++i) {
                    at(blocks_, static_cast<std::size_t>(peer) * kBlock)[i] =
                        value(iteration, rank_, peer, i);
                  }
                }
                for (std::size_t i = 0; i < kBlock; ++i) {
                  at(own_, 0)[i] = value(iteration, rank_, rank_, i);
                }
              }};
    work.writes = {{blocks_, ranks() * kBlock * sizeof(float)}, {own_, kBlock * sizeof(float)}};
    machine_.work(computing_, work);
    machine_.record(computing_, computed_);
    machine_.wait(gathering_, computed_);
    if (!is(NcclBug::exchange_too_early)) machine_.wait(exchanging_, computed_);
  }

  void exchange_all() {
    const std::int32_t exchanges = 2 * (program_.ranks - 1);
    for (std::int32_t i = 0; i < exchanges; ++i) {
      const bool backwards = is(NcclBug::reversed) && rank_ == 0;
      const std::int32_t index = backwards ? exchanges - 1 - i : i;
      exchange(1 + index / 2, static_cast<std::size_t>(index % 2));
    }
    if (is(NcclBug::in_place_self_send)) send_to_itself();
    machine_.record(exchanging_, exchanged_);
  }

  void exchange(std::int32_t step, std::size_t chunk) {
    const std::int32_t to = (rank_ + step) % program_.ranks;
    const std::int32_t from = (rank_ + program_.ranks - step) % program_.ranks;
    const std::size_t offset = chunk == 0 ? 0 : kChunk[0];
    const bool less = is(NcclBug::unequal_counts) && rank_ == 0;
    if (!is(NcclBug::ungrouped)) ncclGroupStart();
    ncclSend(at(blocks_, static_cast<std::size_t>(to) * kBlock + offset), kChunk[chunk],
             ncclFloat32, to, exchange_, handle_of(exchanging_));
    ncclRecv(at(slots_, static_cast<std::size_t>(from) * kBlock + offset),
             kChunk[chunk] - (less ? 1 : 0), ncclFloat32, from, exchange_, handle_of(exchanging_));
    if (!is(NcclBug::ungrouped)) ncclGroupEnd();
  }

  void send_to_itself() {
    float* const own = at(blocks_, static_cast<std::size_t>(rank_) * kBlock);
    ncclGroupStart();
    ncclSend(own, kBlock, ncclFloat32, rank_, exchange_, handle_of(exchanging_));
    ncclRecv(own, kBlock, ncclFloat32, rank_, exchange_, handle_of(exchanging_));
    ncclGroupEnd();
  }

  void consume() {
    if (!is(NcclBug::consumed_too_early)) machine_.wait(consuming_, exchanged_);
    machine_.record(gathering_, all_gathered_);
    machine_.wait(consuming_, all_gathered_);
    Work work{"consume",
              {{gathered_, ranks() * kBlock * sizeof(float)}},
              {},
              500,
              [this, iteration = iteration_] { check(iteration); }};
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      if (std::cmp_equal(peer, rank_)) continue;
      work.reads.push_back({at(slots_, peer * kBlock), kBlock * sizeof(float)});
    }
    machine_.work(consuming_, work);
    machine_.record(consuming_, consumed_);
    machine_.wait(exchanging_, consumed_);
    machine_.wait(gathering_, consumed_);
  }

  void check(std::int32_t iteration) {
    for (std::int32_t peer = 0; peer < program_.ranks; ++peer) {
      const std::size_t first = static_cast<std::size_t>(peer) * kBlock;
      for (std::size_t i = 0; i < kBlock; ++i) {
        ++result_.checked;
        const bool gathered = at(gathered_, first)[i] == value(iteration, peer, peer, i);
        const bool received =
            peer == rank_ || at(slots_, first)[i] == value(iteration, peer, rank_, i);
        if (!gathered || !received) ++result_.wrong;
      }
    }
  }

  const NcclProgram& program_;
  std::int32_t rank_;
  ncclComm_t gather_;
  ncclComm_t exchange_;
  NcclProgramResult& result_;
  Machine& machine_ = Machine::current();
  std::int32_t iteration_ = 0;
  StreamId computing_ = machine_.create_stream("compute");
  StreamId gathering_ = machine_.create_stream("gather");
  StreamId exchanging_ = machine_.create_stream("exchange");
  StreamId consuming_ = machine_.create_stream("consume");
  EventId computed_ = machine_.create_event("computed");
  EventId exchanged_ = machine_.create_event("exchanged");
  EventId all_gathered_ = machine_.create_event("gathered");
  EventId consumed_ = machine_.create_event("consumed");
  std::byte* blocks_ = buffer(ranks(), "blocks");
  std::byte* own_ = windowed(1);
  std::byte* slots_ = buffer(ranks(), "slots");
  std::byte* gathered_ = windowed(ranks());
  std::array<ncclWindow_t, 2> windows_{};
};

}  // namespace

NcclProgramResult run(const NcclProgram& program, std::uint64_t seed) {
  Machine machine({seed});
  NcclProgramResult result;
  ncclUniqueId id{};
  result.verdict = machine.run(program.ranks, [&](std::int32_t rank) {
    if (rank == 0) ncclGetUniqueId(&id);
    machine.barrier();
    ncclComm_t gather = nullptr;
    ncclComm_t exchange = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "p2p";
    config.splitShare = 0;
    if (ncclCommInitRank(&gather, program.ranks, id, rank) != ncclSuccess) return;
    if (ncclCommSplit(gather, 0, rank, &exchange, &config) != ncclSuccess) return;
    RankProgram(program, rank, gather, exchange, result).run();
    ncclCommDestroy(exchange);
    ncclCommDestroy(gather);
  });
  return result;
}

}  // namespace commfuse::fake
