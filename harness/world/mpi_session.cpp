// SPDX-License-Identifier: Apache-2.0
#include "harness/world/mpi_session.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "harness/world/process.h"
#include "harness/world/say.h"

namespace commfuse {

MpiSession::MpiSession() : exceptions_before_(std::uncaught_exceptions()) {
  int provided = MPI_THREAD_SINGLE;
  CFB_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  CFB_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  CFB_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  if (provided < MPI_THREAD_FUNNELED) {
    throw_mpi_error(MPI_ERR_OTHER, "MPI_Init_thread: no threads allowed beside MPI's", __FILE__,
                    __LINE__);
  }
}

MpiSession::~MpiSession() {
  if (finalized_) return;
  if (std::uncaught_exceptions() > exceptions_before_) {
    say("an exception ended this rank, ending all");
    abort_mpi(EXIT_FAILURE);
  }
  MPI_Finalize();
}

void MpiSession::finalize() {
  finalized_ = true;
  CFB_MPI(MPI_Finalize());
}

void abort_mpi(int exit_code) {
  std::cout.flush();
  std::fflush(stdout);
  std::fflush(stderr);
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started != 0 && ended == 0) MPI_Abort(MPI_COMM_WORLD, exit_code);
  flush_and_exit(exit_code);
}

}  // namespace commfuse
