# SPDX-License-Identifier: Apache-2.0
add_library(commfuse_flags INTERFACE)
target_include_directories(commfuse_flags INTERFACE ${PROJECT_SOURCE_DIR})
set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual $<$<BOOL:${COMMFUSE_WERROR}>:-Werror>)
if(CMAKE_UNITY_BUILD)
  list(APPEND warnings -Wno-subobject-linkage)  # sources are included there, and their own types are nobody else's
endif()
target_compile_options(commfuse_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
if(COMMFUSE_SANITIZE)
  # g++ 12 sees uninitialised members in its own <regex> when a sanitizer is on.
  set(instrumented -Wno-maybe-uninitialized -fsanitize=${COMMFUSE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(commfuse_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${instrumented}>")
  target_link_options(commfuse_flags INTERFACE -fsanitize=${COMMFUSE_SANITIZE})
endif()

# commfuse_library(name SOURCES a.cpp b.cpp LINK lib...): a static library of one folder.
function(commfuse_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC commfuse_flags ${ARG_LINK})
endfunction()

# commfuse_embed_texts(OUTPUT HEADER TYPE FUNCTION file.toml...): a source in which FUNCTION gives out the files as TYPE {name, text}.
function(commfuse_embed_texts output header type function)
  set(script ${PROJECT_SOURCE_DIR}/scripts/cmake/EmbedTexts.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} -DTYPE=${type} -DFUNCTION=${function} "-DFILES=${ARGN}" -P ${script}
    DEPENDS ${ARGN} ${script} VERBATIM)
endfunction()
