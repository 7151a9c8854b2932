# SPDX-License-Identifier: Apache-2.0
option(COMMFUSE_TESTS "Build the tests" ON)
option(COMMFUSE_WERROR "Warnings are errors" OFF)
set(COMMFUSE_SANITIZE "" CACHE STRING "Comma-separated sanitizers: address,undefined or thread")

# Optional parts: AUTO takes what is there, ON fails where it is missing, OFF leaves it out.
foreach(part MPI GBENCH CUDA SIMGRID)
  set(COMMFUSE_${part} AUTO CACHE STRING "AUTO, ON or OFF")
  set_property(CACHE COMMFUSE_${part} PROPERTY STRINGS AUTO ON OFF)
  if(NOT COMMFUSE_${part} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "COMMFUSE_${part} is '${COMMFUSE_${part}}'; it must be AUTO, ON or OFF")
  endif()
endforeach()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Type of the build" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # plugins link the same libraries
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
