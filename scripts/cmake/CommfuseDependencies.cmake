# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(OpenBLASPthread REQUIRED)

# commfuse_optional(PART package components...): AUTO takes what is there, ON fails loudly, OFF leaves it out.
macro(commfuse_optional part package)
  set(COMMFUSE_HAVE_${part} OFF)
  if(NOT COMMFUSE_${part} STREQUAL "OFF")
    if(COMMFUSE_${part} STREQUAL "ON")
      find_package(${package} REQUIRED ${ARGN})
    else()
      find_package(${package} QUIET ${ARGN})
    endif()
    set(COMMFUSE_HAVE_${part} ${${package}_FOUND})
  endif()
endmacro()

set(MPI_CXX_SKIP_MPICXX ON)
commfuse_optional(MPI MPI COMPONENTS CXX)
commfuse_optional(GBENCH benchmark)
