# SPDX-License-Identifier: Apache-2.0
# Tests that run under mpirun. The environment lets Open MPI 4 and 5 start more ranks than cores, and lets them run as
# root, as in containers; other MPIs ignore it. Open MPI's own leaks are known to scripts/ci/lsan.supp.
# COMMFUSE_MPI_TESTS: whether there are any. Not under the thread sanitizer: MPI is not instrumented, so that every
# message looks like a race; worlds of threads are what it checks.
set(COMMFUSE_MPI_TESTS OFF)
if(COMMFUSE_HAVE_MPI AND NOT COMMFUSE_SANITIZE MATCHES "thread")
  set(COMMFUSE_MPI_TESTS ON)
endif()
set(COMMFUSE_MPI_TEST_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe)
if(COMMFUSE_SANITIZE MATCHES "address")
  list(APPEND COMMFUSE_MPI_TEST_ENVIRONMENT
    "LSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/scripts/ci/lsan.supp':print_suppressions=0"
    ASAN_OPTIONS=fast_unwind_on_malloc=0)
endif()

# commfuse_mpi_test(name RANKS n COMMAND target arguments... [LABELS ...] [TIMEOUT s]): one run of a program under mpirun.
function(commfuse_mpi_test name)
  cmake_parse_arguments(ARG "" "RANKS;TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  list(POP_FRONT ARG_COMMAND target)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ARG_RANKS} ${MPIEXEC_PREFLAGS}
    $<TARGET_FILE:${target}> ${MPIEXEC_POSTFLAGS} ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES PROCESSORS ${ARG_RANKS} TIMEOUT ${ARG_TIMEOUT}
    LABELS "${ARG_LABELS};mpi" ENVIRONMENT "${COMMFUSE_MPI_TEST_ENVIRONMENT}")
endfunction()
