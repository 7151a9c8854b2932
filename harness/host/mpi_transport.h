// SPDX-License-Identifier: Apache-2.0
// mpi: point-to-point messages and nonblocking collectives of the MPI library, on a communicator of
// its own per lane.
//
// MPI moves large messages only inside MPI calls, and these are made by the rank's thread alone:
// between compute ops and while it waits. So this transport proves semantics; its overlap is
// reported, not claimed. A transfer's span begins when its send or receive was handed to MPI and
// ends when MPI was seen to have finished it.
#pragma once

#include <memory>

#include "harness/host/transport.h"
#include "harness/world/world.h"

namespace commfuse {

/// Collective. The group is one of MPI processes; throws std::invalid_argument otherwise.
std::unique_ptr<Transport> make_mpi_transport(World& group);

}  // namespace commfuse
