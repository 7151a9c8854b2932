# SPDX-License-Identifier: Apache-2.0
# The pthread variant of OpenBLAS: the serial one returns wrong products when several threads call it.
find_path(OpenBLASPthread_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-pthread x86_64-linux-gnu/openblas-pthread
  aarch64-linux-gnu/openblas-pthread openblas)
find_library(OpenBLASPthread_LIBRARY openblas PATH_SUFFIXES openblas-pthread x86_64-linux-gnu/openblas-pthread
  aarch64-linux-gnu/openblas-pthread)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLASPthread REQUIRED_VARS OpenBLASPthread_LIBRARY OpenBLASPthread_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libopenblas-pthread-dev, or point CMAKE_PREFIX_PATH at an OpenBLAS built with threads")
if(OpenBLASPthread_FOUND AND NOT TARGET OpenBLAS::pthread)
  add_library(OpenBLAS::pthread UNKNOWN IMPORTED)
  # The directory becomes a run path: the distribution's alternatives may point libopenblas.so.0 at another variant.
  set_target_properties(OpenBLAS::pthread PROPERTIES IMPORTED_LOCATION ${OpenBLASPthread_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OpenBLASPthread_INCLUDE_DIR})
endif()
mark_as_advanced(OpenBLASPthread_INCLUDE_DIR OpenBLASPthread_LIBRARY)
