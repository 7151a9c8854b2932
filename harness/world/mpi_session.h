// SPDX-License-Identifier: Apache-2.0
// MpiSession: MPI from its start to its end, owned by main around everything that uses it.
#pragma once

#include "harness/world/mpi_error.h"

namespace commfuse {

/// Starts MPI so that one thread per rank makes MPI's calls (MPI_THREAD_FUNNELED: the thread that
/// constructs this), with errors returned instead of fatal. Throws LibraryError.
///
/// Destroyed by an exception it does not finalize, which would wait for ranks that know nothing of
/// the exception, but ends all of them with 1: catch inside of it, print, and World::abort.
class MpiSession {
 public:
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession();

  /// Ends MPI, for whoever wants its errors; the destructor does nothing then. No MPI object may be
  /// left.
  void finalize();

 private:
  int exceptions_before_;
  bool finalized_ = false;
};

/// Ends all ranks of the run with this exit code, whatever state MPI is in; before MPI's start and
/// after its end only this process. From any thread.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace commfuse
