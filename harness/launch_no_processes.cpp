// SPDX-License-Identifier: Apache-2.0
#include "harness/launch.h"
#include "suite/error.h"

namespace commfuse {

int launch_processes(const Options&, Interrupts&) {
  throw UsageError("this commfuse-bench was built without MPI; use --threads P instead of mpirun");
}

}  // namespace commfuse
