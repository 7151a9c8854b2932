// SPDX-License-Identifier: Apache-2.0
#include "harness/host/wire_thread.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace commfuse {
namespace {

// The kernel's struct sched_attr (48 bytes), which the C library does not declare everywhere.
struct SchedulingRequest {
  std::uint32_t size = sizeof(SchedulingRequest);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t slice_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

// The wire works in short bursts beside a thread that computes on the same core. Asking for a short
// slice makes Linux (6.12 and later; others ignore it) let it in when it wakes, instead of when the
// computing thread has used up its own slice, some milliseconds later. It needs no privilege.
void ask_for_short_slices() noexcept {
  SchedulingRequest request;
  request.slice_ns = 100'000;
  syscall(SYS_sched_setattr, 0, &request, 0);
}

}  // namespace

WireThread::WireThread() : thread_([this] { loop(); }) {}

WireThread::~WireThread() {
  ended_.store(true, std::memory_order_release);
  orders_.ring();
  thread_.join();
}

void WireThread::start(WireWork& work) {
  work_.store(&work, std::memory_order_release);
  orders_.ring();
}

void WireThread::wait_idle() {
  idle_.wait_until([this] { return work_.load(std::memory_order_acquire) == nullptr; }, kNeverNs);
}

void WireThread::loop() {
  sharpen_timers();
  ask_for_short_slices();
  for (;;) {
    orders_.wait_until(
        [this] { return work_.load(std::memory_order_acquire) != nullptr || ended_; }, kNeverNs);
    WireWork* const work = work_.load(std::memory_order_acquire);
    if (work == nullptr) return;
    work->move_everything();
    work_.store(nullptr, std::memory_order_release);
    idle_.ring();
  }
}

}  // namespace commfuse
