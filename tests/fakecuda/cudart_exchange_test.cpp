// SPDX-License-Identifier: Apache-2.0
// Two or more processes pass blocks around a ring by copy engines and values, through the API as a
// backend uses it; each bug ends every run with the finding it deserves.
//
//   compute  fill block | record computed       ...       wait value flag >= epoch | add | ack
//   send         wait computed | wait value ack >= epoch - 1 | copy to the right | flag | record
//   sent
#include <cstring>
#include <span>
#include <vector>

#include "tests/fakecuda/cudart_run.h"
#include "tests/fakecuda/test_kernels.h"

namespace commfuse::fake {
namespace {

using Kind = Verdict::Kind;

constexpr int kCount = 16;
constexpr std::size_t kBytes = kCount * sizeof(int);
constexpr std::uint32_t kEpochs = 3;
constexpr std::size_t kSlot = 0, kFlag = 1024, kAck = 2048;  // offsets in a slab

enum class Bug : std::uint8_t {
  none,
  no_wait_for_computed,
  no_wait_for_sent,
  flag_before_copy,
  no_flag_wait,
  flag_wait_low,
  no_ack_wait,
  ack_before_read,
  no_ack_written,
  first_use_late,
};

class Ring {
 public:
  Ring(World& world, Bug bug) : world_(world), bug_(bug) {
    if (bug_ != Bug::first_use_late) check(launch_add(block_, out_, kCount, compute_));
    check(launch_fill(block_, kCount, 0, compute_));
    check(cudaDeviceSynchronize());
    left_ = open(world_.rank() - 1);
    right_ = open(world_.rank() + 1);
    world_.barrier();
  }

  void run() {
    for (epoch_ = 1; epoch_ <= kEpochs; ++epoch_) iterate();
    check(cudaDeviceSynchronize());
    world_.barrier();
    check(cudaIpcCloseMemHandle(left_));
    check(cudaIpcCloseMemHandle(right_));
    world_.barrier();
    check(cudaFree(slab_));
  }

 private:
  [[nodiscard]] bool has(Bug bug) const { return bug_ == bug; }

  std::byte* open(std::int32_t neighbour) {
    cudaIpcMemHandle_t own{};
    check(cudaIpcGetMemHandle(&own, slab_));
    const std::int32_t from = (neighbour + world_.ranks()) % world_.ranks();
    std::byte* opened = nullptr;
    for (std::int32_t rank = 0; rank < world_.ranks(); ++rank) {
      const auto bytes = world_.broadcast(std::as_bytes(std::span(&own, 1)), rank);
      if (rank != from) continue;
      cudaIpcMemHandle_t handle{};
      std::memcpy(&handle, bytes.data(), sizeof handle);
      void* memory = nullptr;
      check(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
      opened = static_cast<std::byte*>(memory);
    }
    return opened;
  }

  [[nodiscard]] int value(std::int32_t rank) const {
    return 1 + 10 * rank + 1000 * static_cast<int>(epoch_);
  }

  void iterate() {
    if (!has(Bug::no_wait_for_sent)) check(cudaStreamWaitEvent(compute_, sent_, 0));
    check(launch_fill(block_, kCount, value(world_.rank()), compute_));
    check(cudaEventRecord(computed_, compute_));
    send();
    check(launch_fill(out_, kCount, 0, compute_));
    receive();
    check(cudaMemcpyAsync(result_.data(), out_, kBytes, cudaMemcpyDeviceToHost, compute_));
    const std::int32_t left = (world_.rank() + world_.ranks() - 1) % world_.ranks();
    if (has(Bug::none)) {
      EXPECT_EQ(result_, std::vector<int>(kCount, value(left)));
    }
  }

  void send() {
    if (!has(Bug::no_wait_for_computed)) check(cudaStreamWaitEvent(send_, computed_, 0));
    if (!has(Bug::no_ack_wait)) wait_value(send_, slab_ + kAck, epoch_ - 1);
    if (has(Bug::flag_before_copy)) write_value(send_, right_ + kFlag, epoch_);
    check(cudaMemcpyAsync(right_ + kSlot, block_, kBytes, cudaMemcpyDeviceToDevice, send_));
    if (!has(Bug::flag_before_copy)) write_value(send_, right_ + kFlag, epoch_);
    check(cudaEventRecord(sent_, send_));
  }

  void receive() {
    const std::uint32_t low = has(Bug::flag_wait_low) ? 1 : 0;
    if (!has(Bug::no_flag_wait)) wait_value(compute_, slab_ + kFlag, epoch_ - low);
    if (has(Bug::ack_before_read)) write_value(compute_, left_ + kAck, epoch_);
    check(launch_add(out_, reinterpret_cast<int*>(slab_ + kSlot), kCount, compute_));
    if (!has(Bug::ack_before_read) && !has(Bug::no_ack_written)) {
      write_value(compute_, left_ + kAck, epoch_);
    }
  }

  World& world_;
  Bug bug_;
  cudaStream_t compute_ = new_stream();
  cudaStream_t send_ = new_stream();
  cudaEvent_t computed_ = new_event();
  cudaEvent_t sent_ = new_event();
  std::byte* slab_ = zeroed(kSlabBytes);
  int* block_ = reinterpret_cast<int*>(zeroed(kBytes));
  int* out_ = reinterpret_cast<int*>(zeroed(kBytes));
  std::byte* left_ = nullptr;
  std::byte* right_ = nullptr;
  std::vector<int> result_ = std::vector<int>(kCount);
  std::uint32_t epoch_ = 0;
};

class Exchange : public testing::TestWithParam<std::int32_t> {
 protected:
  static void expect(Bug bug, Kind kind, const std::string& part) {
    RunSetup setup;
    setup.ranks = GetParam();
    setup.devices.count = GetParam();
    expect_runs(setup, kind, part, [bug](World& world) { Ring(world, bug).run(); });
  }
};

TEST_P(Exchange, IsRight) { expect(Bug::none, Kind::ok, ""); }

TEST_P(Exchange, EveryBugIsFoundInEveryRun) {
  expect(Bug::no_wait_for_computed, Kind::race, "memory 1: ");
  expect(Bug::no_wait_for_sent, Kind::race, "memory 1: ");
  expect(Bug::flag_before_copy, Kind::race, "memory 0: ");
  expect(Bug::no_flag_wait, Kind::race, "memory 0: ");
  expect(Bug::flag_wait_low, Kind::race, "memory 0: ");
  expect(Bug::no_ack_wait, Kind::race, "memory 0: ");
  expect(Bug::ack_before_read, Kind::race, "memory 0: ");
  expect(Bug::no_ack_written, Kind::deadlock, "to be written by nobody");
  expect(Bug::first_use_late, Kind::host_error, "loading the kernel test::add at its first use");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Exchange, testing::Values(2, 3, 4, 8));

}  // namespace
}  // namespace commfuse::fake
