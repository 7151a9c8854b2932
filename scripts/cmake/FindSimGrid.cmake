# SPDX-License-Identifier: Apache-2.0
# SimGrid with its S4U interface. The library also exports the MPI symbols of its SMPI, so nothing that uses MPI may link it.
find_path(SimGrid_INCLUDE_DIR simgrid/s4u.hpp)
find_library(SimGrid_LIBRARY simgrid)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SimGrid REQUIRED_VARS SimGrid_LIBRARY SimGrid_INCLUDE_DIR)
if(SimGrid_FOUND AND NOT TARGET SimGrid::simgrid)
  add_library(SimGrid::simgrid UNKNOWN IMPORTED)
  set_target_properties(SimGrid::simgrid PROPERTIES IMPORTED_LOCATION ${SimGrid_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${SimGrid_INCLUDE_DIR})
endif()
mark_as_advanced(SimGrid_INCLUDE_DIR SimGrid_LIBRARY)
