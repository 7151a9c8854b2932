// SPDX-License-Identifier: Apache-2.0
// CLOCK_MONOTONIC of a host thread of a machine is its virtual time, so that what a program reads
// from the clock and what the fakes report as times of the device are on one scale. The linker puts
// this in the place of clock_gettime (--wrap); other threads, and other clocks, see the real one.
#include <ctime>

#include "harness/world/clock.h"
#include "tests/fakecuda/fake_cupti.h"
#include "tests/fakecuda/machine.h"

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
int __real_clock_gettime(clockid_t clock, timespec* time);

int __wrap_clock_gettime(clockid_t clock, timespec* time) {
  using commfuse::fake::FakeCupti;
  using commfuse::fake::Machine;
  if (clock != CLOCK_MONOTONIC || !Machine::is_here()) return __real_clock_gettime(clock, time);
  *time = commfuse::to_timespec(FakeCupti::kEpoch_ns + Machine::current().host_now_ns());
  return 0;
}
// NOLINTEND(bugprone-reserved-identifier)

}  // extern "C"
