// SPDX-License-Identifier: Apache-2.0
// This process: where it runs, who started it, and how it ends at once. Needs no MPI, so that a
// program asks before it starts MPI, and one built without MPI notices that mpirun started it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace commfuse {

/// Name of this node.
[[nodiscard]] std::string host_name();

/// Whether mpirun, mpiexec or srun started this process as one of a set of ranks.
[[nodiscard]] bool launched_by_mpi();

/// How many ranks the launcher started, as its environment says. Compare with MPI_Comm_size: a
/// program linked with another MPI than the launcher's sees worlds of one rank.
[[nodiscard]] std::optional<std::int32_t> launcher_ranks();

/// This process's rank, as the launcher's environment says; for messages before MPI is up.
[[nodiscard]] std::optional<std::int32_t> launcher_rank();

/// Flushes standard output and error and ends the process without destructors or exit handlers, so
/// that it also works beside threads that hang. From any thread.
[[noreturn]] void flush_and_exit(int exit_code);

}  // namespace commfuse
