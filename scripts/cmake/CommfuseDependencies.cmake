# SPDX-License-Identifier: Apache-2.0
# commfuse_require(PACKAGE DEBIAN_PACKAGE): found, or an error that says what to install.
macro(commfuse_require package debian_package)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} is missing: install ${debian_package}, or name its place in CMAKE_PREFIX_PATH")
  endif()
endmacro()

# commfuse_optional(PART DEBIAN_PACKAGES PACKAGE [arguments of find_package...]) sets COMMFUSE_HAVE_<PART>, and
# COMMFUSE_WHY_<PART> for the closing table where it is not there.
macro(commfuse_optional part debian_packages package)
  set(COMMFUSE_HAVE_${part} OFF)
  set(COMMFUSE_WHY_${part} "COMMFUSE_${part}=OFF")
  if(NOT COMMFUSE_${part} STREQUAL "OFF")
    find_package(${package} QUIET ${ARGN})
    set(COMMFUSE_WHY_${part} "not found: install ${debian_packages}")
    if(${package}_FOUND)
      set(COMMFUSE_HAVE_${part} ON)
    elseif(COMMFUSE_${part} STREQUAL "ON")
      message(FATAL_ERROR "COMMFUSE_${part}=ON, but ${package} was ${COMMFUSE_WHY_${part}}")
    endif()
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
commfuse_require(fmt libfmt-dev)
commfuse_require(nlohmann_json nlohmann-json3-dev)
commfuse_require(CLI11 libcli11-dev)
commfuse_require(tomlplusplus libtomlplusplus-dev)
commfuse_require(OpenBLASPthread libopenblas-pthread-dev)
if(COMMFUSE_TESTS)
  commfuse_require(GTest libgtest-dev)
endif()

set(MPI_CXX_SKIP_MPICXX ON)  # the C++ bindings that MPI-3 removed
commfuse_optional(MPI "libopenmpi-dev openmpi-bin" MPI COMPONENTS CXX)
commfuse_optional(GBENCH libbenchmark-dev benchmark)

commfuse_optional(SIMGRID libsimgrid-dev SimGrid)

include(CommfuseCuda)
