// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/ce_reduce_scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakecuda/machine.h"

namespace commfuse::fake {
namespace {

constexpr std::int32_t kElements = 8;     // of a block
constexpr std::int32_t kPoison = -77777;  // what slots, blocks and outputs start with
constexpr std::size_t kCounterWords = 32;

using Block = std::int32_t*;

/// What a rank shows to its peers.
struct Slab {
  Block slots = nullptr;
  std::uint32_t* flags = nullptr;
  std::uint32_t* acks = nullptr;
};

struct Shared {
  CeProgram program;
  std::vector<Slab> slabs;
  CeResult result;
};

/// What a rank contributes to element i of the block that `owner` gets.
std::int32_t partial(std::int32_t rank, std::int32_t owner, std::int32_t i, std::int32_t input) {
  return 1 + rank * 7 + owner * 101 + i * 13 + input * 1009;
}

Range block_range(const std::int32_t* block) { return {block, kElements * sizeof *block}; }

class RankProgram {
 public:
  RankProgram(Machine& machine, Shared& shared, std::int32_t rank)
      : machine_(machine), shared_(shared), program_(shared.program), rank_(rank) {}

  void run() {
    set_up();
    for (std::int32_t m = 0; m < program_.measurements; ++m) measure();
  }

 private:
  [[nodiscard]] bool has(Bug bug) const { return program_.bug == bug; }
  [[nodiscard]] std::int32_t last_step() const { return program_.ranks - 1; }
  [[nodiscard]] std::int32_t wrapped(std::int32_t rank) const {
    return (rank + program_.ranks) % program_.ranks;
  }
  [[nodiscard]] bool direct() const { return program_.route == Route::direct; }

  // Step s: to whom, from whom, whose block, and which slot, flag and ack.
  [[nodiscard]] std::int32_t to(std::int32_t s) const {
    return wrapped(rank_ + (direct() ? s : 1));
  }
  [[nodiscard]] std::int32_t from(std::int32_t s) const {
    return wrapped(rank_ - (direct() ? s : 1));
  }
  [[nodiscard]] std::int32_t owner(std::int32_t s) const {
    return wrapped(direct() ? to(s) : rank_ - s);
  }
  [[nodiscard]] std::int32_t slot_there(std::int32_t s) const { return direct() ? rank_ : s; }
  [[nodiscard]] std::int32_t slot_here(std::int32_t s) const { return direct() ? from(s) : s; }
  [[nodiscard]] std::int32_t ack_here(std::int32_t s) const { return direct() ? to(s) : s; }
  [[nodiscard]] std::int32_t ack_there(std::int32_t s) const { return direct() ? rank_ : s; }
  [[nodiscard]] std::int32_t unused_slot_there(std::int32_t s) const {
    return direct() ? to(s) : 0;
  }

  static Block at(Block blocks, std::int32_t index) { return blocks + index * kElements; }
  static std::uint32_t* at(std::uint32_t* counters, std::int32_t index) {
    return counters + static_cast<std::size_t>(index) * kCounterWords;
  }
  Slab& slab(std::int32_t rank) { return shared_.slabs[static_cast<std::size_t>(rank)]; }
  StreamId send_stream(std::int32_t s) { return sends_[program_.three_streams ? 1 : to(s)]; }
  static std::size_t index(std::int32_t s) { return static_cast<std::size_t>(s); }

  void set_up();
  void make_streams();
  Block make_blocks(const std::string& name, std::int32_t count);
  std::uint32_t* make_counters(const std::string& name);
  void measure();
  void iterate();
  void direct_iteration();
  void ring_iteration();

  void gemm(Block block, std::int32_t owner);
  void produce(std::int32_t s);
  void send(std::int32_t s);
  void copy_and_flag(std::int32_t s, std::uint32_t* flag);
  void await(std::int32_t s);
  void consume(std::int32_t s, Block into);
  void check();

  Machine& machine_;
  Shared& shared_;
  const CeProgram& program_;
  std::int32_t rank_;
  StreamId compute_{};
  StreamId receive_{};
  std::vector<StreamId> sends_;
  std::vector<EventId> computed_, sent_, arrived_;  // by step
  Block blocks_ = nullptr;                          // by step
  Block out_ = nullptr;
  std::uint32_t epoch_ = 0;
  std::int32_t input_ = 0;
};

Block RankProgram::make_blocks(const std::string& name, std::int32_t count) {
  const std::size_t bytes = index(count * kElements) * sizeof(std::int32_t);
  const Block blocks = reinterpret_cast<Block>(machine_.allocate(bytes, name));
  machine_.host_work({"fill " + name, {}, {{blocks, bytes}}, 0, [=] {
                        std::fill_n(blocks, count * kElements, kPoison);
                      }});
  return blocks;
}

std::uint32_t* RankProgram::make_counters(const std::string& name) {
  const std::size_t words = index(program_.ranks) * kCounterWords;
  auto* counters = reinterpret_cast<std::uint32_t*>(machine_.allocate(words * 4, name));
  machine_.host_work(
      {"zero " + name, {}, {{counters, words * 4}}, 0, [=] { std::fill_n(counters, words, 0U); }});
  for (std::int32_t i = 0; i < program_.ranks; ++i) {
    machine_.name_address(at(counters, i), fmt::format("{}[{}]", name, i));
  }
  return counters;
}

void RankProgram::make_streams() {
  const std::optional<std::int32_t> device =
      program_.one_device ? std::optional<std::int32_t>(0) : std::nullopt;
  compute_ = machine_.create_stream("compute", device);
  sends_.resize(index(program_.ranks));
  for (std::int32_t i = 0; i < program_.ranks; ++i) {
    const bool needed = program_.three_streams ? i == 1 : direct() ? i != rank_ : i == to(1);
    if (needed) sends_[index(i)] = machine_.create_stream(fmt::format("send{}", i), device);
  }
  receive_ = program_.three_streams ? machine_.create_stream("receive", device) : compute_;
  for (std::int32_t s = 0; s < program_.ranks; ++s) {
    computed_.push_back(machine_.create_event(fmt::format("computed[{}]", s)));
    sent_.push_back(machine_.create_event(fmt::format("sent[{}]", s)));
    arrived_.push_back(machine_.create_event(fmt::format("arrived[{}]", s)));
  }
}

void RankProgram::set_up() {
  make_streams();
  blocks_ = make_blocks("blocks", program_.ranks);
  out_ = make_blocks("out", 1);
  slab(rank_) = {make_blocks("slots", program_.ranks), make_counters("flag"), make_counters("ack")};
  machine_.barrier();
}

void RankProgram::measure() {
  if (has(Bug::epochs_restarted)) epoch_ = 0;
  for (std::int32_t i = 0; i < program_.iterations; ++i) iterate();
  machine_.synchronise_device(program_.one_device ? 0 : rank_);
  machine_.barrier();
}

void RankProgram::iterate() {
  ++epoch_;
  ++input_;
  machine_.set_label(fmt::format("epoch {}", epoch_));
  machine_.work(compute_, {"poison out", {}, {block_range(out_)}, 10, [out = out_] {
                             std::fill_n(out, kElements, kPoison);
                           }});
  if (program_.issue == Issue::receives_first) {
    for (std::int32_t s = 1; s <= last_step(); ++s) await(s);
  }
  direct() ? direct_iteration() : ring_iteration();
  check();
}

void RankProgram::direct_iteration() {
  const bool by_steps = program_.issue != Issue::sends_first;
  if (by_steps) gemm(out_, rank_);
  for (std::int32_t s = 1; s <= last_step(); ++s) {
    produce(s);
    send(s);
    if (!by_steps) continue;
    if (program_.issue == Issue::steps) await(s);
    consume(s, out_);
  }
  if (by_steps) return;
  gemm(out_, rank_);
  for (std::int32_t s = 1; s <= last_step(); ++s) {
    await(s);
    consume(s, out_);
  }
}

void RankProgram::ring_iteration() {
  for (std::int32_t s = 1; s <= last_step(); ++s) {
    produce(s);
    send(s);
    if (program_.issue != Issue::receives_first) await(s);
  }
  gemm(out_, rank_);
  consume(last_step(), out_);
}

void RankProgram::gemm(Block block, std::int32_t owner) {
  machine_.work(
      compute_,
      {"gemm", {}, {block_range(block)}, 100, [block, owner, rank = rank_, input = input_] {
         for (std::int32_t i = 0; i < kElements; ++i) {
           block[i] = partial(rank, owner, i, input);
         }
       }});
}

/// Computes the block of step s, in a ring with what arrived in the step before.
void RankProgram::produce(std::int32_t s) {
  machine_.set_label(fmt::format("epoch {} step {}", epoch_, s));
  if (has(Bug::event_waited_early)) machine_.wait(send_stream(s), computed_[index(s)]);
  if (!has(Bug::block_overwritten)) machine_.wait(compute_, sent_[index(s)]);
  if (has(Bug::event_recorded_early)) machine_.record(compute_, computed_[index(s)]);
  gemm(at(blocks_, s), owner(s));
  if (!direct() && s > 1) consume(s - 1, at(blocks_, s));
  if (!has(Bug::event_recorded_early)) machine_.record(compute_, computed_[index(s)]);
}

void RankProgram::send(std::int32_t s) {
  const StreamId stream = send_stream(s);
  if (!has(Bug::no_event_wait) && !has(Bug::event_waited_early)) {
    machine_.wait(stream, computed_[index(s)]);
  }
  if (!has(Bug::no_ack_wait)) {
    const std::uint32_t low = has(Bug::ack_wait_low) ? 2 : 1;
    machine_.wait_value(stream, at(slab(rank_).acks, ack_here(s)), epoch_ - low);
  }
  const bool wrong = has(Bug::flag_in_wrong_slot);
  copy_and_flag(s, at(slab(to(s)).flags, wrong ? unused_slot_there(s) : slot_there(s)));
  machine_.record(stream, sent_[index(s)]);
}

void RankProgram::copy_and_flag(std::int32_t s, std::uint32_t* flag) {
  const Block target = at(slab(to(s)).slots, slot_there(s));
  const Block source = at(blocks_, s);
  if (has(Bug::flag_before_copy)) machine_.write_value(send_stream(s), flag, epoch_);
  machine_.work(send_stream(s), {"copy", {block_range(source)}, {block_range(target)}, 50, [=] {
                                   std::copy_n(source, kElements, target);
                                 }});
  if (!has(Bug::flag_before_copy)) machine_.write_value(send_stream(s), flag, epoch_);
}

/// Lets the receive stream wait for the data of step s; if it is a stream of its own, it tells.
void RankProgram::await(std::int32_t s) {
  if (!has(Bug::no_flag_wait)) {
    const std::uint32_t low = has(Bug::flag_wait_low) ? 1 : 0;
    machine_.wait_value(receive_, at(slab(rank_).flags, slot_here(s)), epoch_ - low);
  }
  if (program_.three_streams) machine_.record(receive_, arrived_[index(s)]);
}

void RankProgram::consume(std::int32_t s, Block into) {
  if (program_.three_streams) machine_.wait(compute_, arrived_[index(s)]);
  std::uint32_t* ack = at(slab(from(s)).acks, ack_there(s));
  const Block slot = at(slab(rank_).slots, slot_here(s));
  if (has(Bug::ack_before_read)) machine_.write_value(compute_, ack, epoch_);
  machine_.work(compute_,
                {"add", {block_range(slot), block_range(into)}, {block_range(into)}, 20, [=] {
                   for (std::int32_t i = 0; i < kElements; ++i) into[i] += slot[i];
                 }});
  if (!has(Bug::ack_before_read) && !has(Bug::no_ack_written)) {
    machine_.write_value(compute_, ack, epoch_);
  }
}

void RankProgram::check() {
  machine_.work(compute_,
                {"check", {block_range(out_)}, {}, 10, [this, out = out_, input = input_] {
                   for (std::int32_t i = 0; i < kElements; ++i) {
                     std::int32_t sum = 0;
                     for (std::int32_t r = 0; r < program_.ranks; ++r) {
                       sum += partial(r, rank_, i, input);
                     }
                     ++shared_.result.checked;
                     if (out[i] != sum) ++shared_.result.wrong;
                   }
                 }});
}

}  // namespace

CeResult run(const CeProgram& program, std::uint64_t seed, std::size_t hardware_queues) {
  Machine machine({seed, hardware_queues});
  Shared shared{program, std::vector<Slab>(static_cast<std::size_t>(program.ranks)), {}};
  shared.result.verdict = machine.run(
      program.ranks, [&](std::int32_t rank) { RankProgram(machine, shared, rank).run(); });
  return shared.result;
}

}  // namespace commfuse::fake
